/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/str.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool wr_str_copy(char *dst, size_t size, const char *src)
{
    size_t len = strlen(src);
    size_t n = len < size ? len : size - 1;
    memcpy(dst, src, n);
    dst[n] = '\0';
    return n == len;
}

bool wr_str_append(char *dst, size_t size, const char *src)
{
    size_t used = strnlen(dst, size);
    return used < size && wr_str_copy(dst + used, size - used, src);
}

static bool buf_reserve(struct wr_buf *buf, size_t more)
{
    if (buf->failed)
        return false;
    if (more >= buf->cap - buf->len) {
        size_t cap = buf->cap ? buf->cap : 128;
        while (more >= cap - buf->len) {
            if (cap > SIZE_MAX / 2) {
                buf->failed = true;
                return false;
            }
            cap *= 2;
        }
        char *data = realloc(buf->data, cap);
        if (!data) {
            buf->failed = true;
            return false;
        }
        buf->data = data;
        buf->cap = cap;
    }
    return true;
}

void wr_buf_add(struct wr_buf *buf, const void *data, size_t len)
{
    if (!buf_reserve(buf, len))
        return;
    if (len)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
}

void wr_buf_str(struct wr_buf *buf, const char *text)
{
    wr_buf_add(buf, text, strlen(text));
}

void wr_buf_printf(struct wr_buf *buf, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int len = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (len < 0 || !buf_reserve(buf, (size_t)len))
        return;
    va_start(ap, fmt);
    vsnprintf(buf->data + buf->len, (size_t)len + 1, fmt, ap);
    va_end(ap);
    buf->len += (size_t)len;
}

void wr_buf_free(struct wr_buf *buf)
{
    free(buf->data);
    memset(buf, 0, sizeof *buf);
}

bool wr_parse_int(const char *text, int64_t *out)
{
    char *end;
    if (!*text || *text == ' ')
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 0);
    if (errno || *end)
        return false;
    *out = value;
    return true;
}

bool wr_parse_bool(const char *text, bool *out)
{
    static const char *const yes[] = {"1", "yes", "true", "on", "y"};
    static const char *const no[] = {"0", "no", "false", "off", "n"};
    for (size_t i = 0; i < WR_ARRAY_SIZE(yes); i++) {
        if (!strcasecmp(text, yes[i])) {
            *out = true;
            return true;
        }
        if (!strcasecmp(text, no[i])) {
            *out = false;
            return true;
        }
    }
    return false;
}

/* Not strtod(), which reads "1.5" as the program's locale has it. */
bool wr_parse_real(const char *text, double *out)
{
    bool negative = *text == '-';
    const char *p = text + negative;
    double value = 0;
    int digits = 0, point = 0, exponent = 0;
    for (bool after = false; (*p >= '0' && *p <= '9') || (*p == '.' && !after); p++) {
        if (*p == '.') {
            after = true;
            continue;
        }
        value = value * 10 + (*p - '0');
        point += after;
        if (++digits > 40)
            return false;
    }
    if (digits && (*p == 'e' || *p == 'E')) {
        bool small = p[1] == '-';
        p += 1 + (p[1] == '-' || p[1] == '+');
        if (!*p || strspn(p, "0123456789") != strlen(p) || strlen(p) > 3)
            return false;
        exponent = (small ? -1 : 1) * atoi(p);
        p += strlen(p);
    }
    exponent -= point;
    value = exponent < 0 ? value / pow(10, -exponent) : value * pow(10, exponent);
    if (!digits || *p || !isfinite(value))
        return false;
    *out = negative ? -value : value;
    return true;
}

struct unit {
    const char *name;
    double factor;
};

/* A non-negative decimal number and one of the units; the unit "" gives the meaning of a bare number. */
static bool parse_with_unit(const char *text, const struct unit *units, size_t nunits, double *out)
{
    char *end;
    if (!(*text >= '0' && *text <= '9') && *text != '.')
        return false;
    errno = 0;
    double value = strtod(text, &end);
    if (errno || end == text || !isfinite(value) || strspn(text, "0123456789.") != (size_t)(end - text))
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < nunits; i++)
        if (!strcasecmp(end, units[i].name)) {
            *out = value * units[i].factor;
            return true;
        }
    return false;
}

static bool is_infinite_word(const char *text)
{
    return !strcasecmp(text, "inf") || !strcasecmp(text, "unlimited");
}

bool wr_parse_bytes(const char *text, uint64_t *out)
{
    static const struct unit units[] = {
        {"", 1},           {"b", 1},           {"k", 0x1p10},     {"kb", 0x1p10},    {"kib", 0x1p10}, {"m", 0x1p20},
        {"mb", 0x1p20},    {"mib", 0x1p20},    {"g", 0x1p30},     {"gb", 0x1p30},    {"gib", 0x1p30}, {"t", 0x1p40},
        {"tb", 0x1p40},    {"tib", 0x1p40},
    };
    double value;
    if (is_infinite_word(text)) {
        *out = WR_BYTES_INF;
        return true;
    }
    /* whole numbers exactly, past 2^53 too */
    if (text[0] && strspn(text, "0123456789") == strlen(text)) {
        errno = 0;
        unsigned long long exact = strtoull(text, NULL, 10);
        if (errno)
            return false;
        *out = exact;
        return true;
    }
    if (!parse_with_unit(text, units, WR_ARRAY_SIZE(units), &value) || value >= 0x1p64)
        return false;
    *out = (uint64_t)value;
    return true;
}

bool wr_parse_time(const char *text, int64_t *ns_out)
{
    static const struct unit units[] = {
        {"", 1e9}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9},
    };
    double value;
    if (is_infinite_word(text)) {
        *ns_out = WR_TIME_INF;
        return true;
    }
    if (!parse_with_unit(text, units, WR_ARRAY_SIZE(units), &value) || value >= 0x1p63)
        return false;
    *ns_out = (int64_t)value;
    return true;
}

/* "%.3g"-like: three digits at most, no exponent for the ranges used here */
static void format_scaled(double value, const char *unit, char *buf, size_t size)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    if (value == floor(value) && value < 1000)
        decimals = 0;
    snprintf(buf, size, "%.*f %s", decimals, value, unit);
}

const char *wr_format_bytes(uint64_t bytes, char *buf, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t i = 0;
    if (bytes == WR_BYTES_INF) {
        wr_str_copy(buf, size, "inf");
        return buf;
    }
    for (; value >= 1024 && i + 1 < WR_ARRAY_SIZE(units); i++)
        value /= 1024;
    format_scaled(value, units[i], buf, size);
    return buf;
}

const char *wr_format_time(int64_t ns, char *buf, size_t size)
{
    static const struct unit units[] = {{"h", 3600e9}, {"min", 60e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}};
    if (ns == WR_TIME_INF) {
        wr_str_copy(buf, size, "inf");
        return buf;
    }
    for (size_t i = 0; i < WR_ARRAY_SIZE(units); i++)
        if ((double)ns >= units[i].factor) {
            format_scaled((double)ns / units[i].factor, units[i].name, buf, size);
            return buf;
        }
    snprintf(buf, size, "%lld ns", (long long)ns);
    return buf;
}

int wr_str_distance(const char *a, const char *b)
{
    enum { MAX = 64 };
    size_t la = strlen(a), lb = strlen(b);
    int row[MAX];
    if (la >= MAX || lb >= MAX)
        return MAX;
    for (size_t j = 0; j <= lb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            int substitute = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = WR_MIN(substitute, WR_MIN(row[j - 1], diagonal) + 1);
        }
    }
    return row[lb];
}

const char *wr_format_ranges(const int *sorted, size_t n, char *buf, size_t size)
{
    size_t used = 0;
    if (size)
        buf[0] = '\0';
    for (size_t i = 0, j; i < n; i = j) {
        char item[32];
        for (j = i + 1; j < n && sorted[j] == sorted[j - 1] + 1;)
            j++;
        if (j == i + 1)
            snprintf(item, sizeof item, "%s%d", i ? "," : "", sorted[i]);
        else
            snprintf(item, sizeof item, "%s%d-%d", i ? "," : "", sorted[i], sorted[j - 1]);
        size_t len = strlen(item);
        if (used + len + (j < n ? 4 : 1) > size) {
            if (used + 4 <= size)
                memcpy(buf + used, "...", 4);
            return buf;
        }
        memcpy(buf + used, item, len + 1);
        used += len;
    }
    return buf;
}

void wr_json_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            putc(c, out);
    }
}
