/* SPDX-License-Identifier: BSD-3-Clause */
#include <weir/status.h>

const char *weir_status_name(weir_status status)
{
    switch (status) {
#define CASE_NAME(name, value, message)                                                                      \
    case name:                                                                                               \
        return #name;
        WEIR_STATUS_TABLE(CASE_NAME)
#undef CASE_NAME
    }
    return "WEIR_ERR_UNKNOWN";
}

const char *weir_status_message(weir_status status)
{
    switch (status) {
#define CASE_MESSAGE(name, value, message)                                                                   \
    case name:                                                                                               \
        return message;
        WEIR_STATUS_TABLE(CASE_MESSAGE)
#undef CASE_MESSAGE
    }
    return "unknown status";
}
