/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's connection to weir's own bootstrap server; shared by the components "tcp" (weirrun) and "id" (unique id).
 * Not thread safe.
 */
#ifndef WR_BOOT_CLIENT_H
#define WR_BOOT_CLIENT_H

#include "comm/boot/server.h"
#include "comm/boot/wire.h"

/* Whom to reach, and as whom. */
struct wr_target {
    const char *addresses; /* "host:port" or "[v6]:port", several separated by commas, tried in turn */
    uint8_t secret[WR_SECRET_BYTES];
    int rank, size;
    int node; /* WEIR_JOB_NODE or -1 */
};

/* 32 hexadecimal digits to bytes. */
bool wr_secret_parse(const char *hex, uint8_t secret[WR_SECRET_BYTES]);

/*
 * Connects, proves the secret to the server and has it prove the secret, waits until all ranks have come, and fills in
 * boot->info and boot->state. Then the functions below are the ops of the component.
 */
weir_status wr_client_open(struct wr_boot *boot, const struct wr_boot_params *params, const struct wr_target *target,
                           weir_error *err);
weir_status wr_client_put(struct wr_boot *boot, const char *key, const void *value, size_t len, enum wr_boot_scope scope,
                          weir_error *err);
weir_status wr_client_fence(struct wr_boot *boot, weir_error *err);
weir_status wr_client_get(struct wr_boot *boot, int rank, const char *key, void **value, size_t *len, weir_error *err);
void wr_client_abort(struct wr_boot *boot, int code, const char *message);
int wr_client_event_fd(struct wr_boot *boot);
bool wr_client_poll_event(struct wr_boot *boot, struct wr_boot_event *event);
weir_status wr_client_close(struct wr_boot *boot, bool goodbye, weir_error *err);

#endif
