/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/picture.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>

#include "base/error.h"

weir_status picture_file(const char *path, void (*write)(const void *user, FILE *out), const void *user, weir_error *err)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return wr_error_errno(err, WEIR_ERR_IO, errno, "choose a place that can be written", "%s", path);
    write(user, out);
    bool bad = ferror(out);
    if (fclose(out) || bad)
        return wr_error_set(err, WEIR_ERR_IO, "is the disk full?", "%s could not be written", path);
    return WEIR_OK;
}

void picture_begin(FILE *out, double width, double height, const char *style, double left, const char *title, ...)
{
    va_list ap;
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<style>%s</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"%.0f\" y=\"20\" font-size=\"14\">",
            width, height, width, height, style, left);
    va_start(ap, title);
    vfprintf(out, title, ap);
    va_end(ap);
    fputs("</text>\n", out);
}

void picture_axis(FILE *out, double left, double width, double top, double bottom, double end, double scale, const char *unit)
{
    double step = pow(10, floor(log10(end > 0 ? end / 8 : 1)));
    step *= end / step > 40 ? 5 : end / step > 16 ? 2 : 1;
    for (double t = 0; t <= end * (1 + 1e-9); t += step) {
        double x = left + (end > 0 ? t / end * width : 0);
        fprintf(out, "<line class=\"tick\" x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\"/>\n<text class=\"time\" x=\"%.2f\" y=\"%.1f\">%g%s</text>\n",
                x, top, x, bottom, x, bottom + 14, t / scale, unit);
        if (end <= 0)
            break;
    }
}

void picture_legend(FILE *out, double left, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(out, "<rect class=\"%s\" x=\"%.0f\" y=\"34\" width=\"14\" height=\"12\"/>\n<text x=\"%.0f\" y=\"44\">%s</text>\n", names[i],
                left + (double)i * 90, left + (double)i * 90 + 20, names[i]);
}
