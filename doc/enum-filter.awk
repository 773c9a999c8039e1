# SPDX-License-Identifier: BSD-3-Clause
# Shows Doxygen the enums that the preprocessor makes from the tables WEIR_..._TABLE(X), with the entries' texts.
/^#define WEIR_[A-Z_]+_TABLE\(X\)/ {
    match($0, /WEIR_[A-Z_]+_TABLE/)
    table = substr($0, RSTART, RLENGTH)
}
/^[ \t]*X\(WEIR_/ {
    match($0, /X\(.*\)/)
    entry = substr($0, RSTART + 2, RLENGTH - 3)
    split(entry, part, /, */)
    text = entry
    sub(/^[^"]*"/, "", text)
    sub(/".*$/, "", text)
    lines[table] = lines[table] "    " part[1] " = " part[2] ", /**< " text " */\n"
}
/^[ \t]+WEIR_[A-Z_]+_TABLE\(WEIR_[A-Z_]+_ENUM\)/ {
    match($0, /WEIR_[A-Z_]+_TABLE/)
    printf "%s", lines[substr($0, RSTART, RLENGTH)]
    next
}
/WEIR_[A-Z_]+_ENUM/ { next }
{ print }
