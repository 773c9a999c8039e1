# SPDX-License-Identifier: BSD-3-Clause
# Shows Doxygen the enum of status codes that the preprocessor makes from WEIR_STATUS_TABLE.
/^[ \t]*X\(WEIR_/ {
    match($0, /X\(.*\)/)
    entry = substr($0, RSTART + 2, RLENGTH - 3)
    split(entry, part, /, */)
    text = entry
    sub(/^[^"]*"/, "", text)
    sub(/".*$/, "", text)
    line[++n] = "    " part[1] " = " part[2] ", /**< " text " */"
}
/^WEIR_STATUS_TABLE|^[ \t]+WEIR_STATUS_TABLE\(/ {
    for (i = 1; i <= n; i++)
        print line[i]
    next
}
/WEIR_STATUS_ENUM/ { next }
{ print }
