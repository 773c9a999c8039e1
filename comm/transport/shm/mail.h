/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mail between the processes of a node: short letters that can carry a file descriptor, sent to an abstract local socket.
 * The receiver need not be active when a letter is sent, and nothing remains of a box when its process dies. A letter
 * counts only when it shows the nonce of the box (which travels in the rank's address) and comes from the same user.
 * Not thread safe.
 */
#ifndef WR_SHM_MAIL_H
#define WR_SHM_MAIL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/status.h>

#include "base/list.h"

/* Where a box is reached. Plain data: travels in the address of a rank. */
struct wr_mail_address {
    char name[40];     /* abstract name of the box; the bell's has a "b" in front */
    uint8_t nonce[16]; /* shown by every letter */
};

enum wr_letter_kind { WR_LETTER_CONTROL = 1, WR_LETTER_SEGMENT, WR_LETTER_TIE };

struct wr_letter {
    uint32_t magic;
    uint16_t kind;
    int16_t status; /* WEIR_OK, or why there is no descriptor in it */
    int32_t sender; /* rank */
    int32_t pid;    /* filled in on arrival: the sender's process as this process sees it, 0 when it cannot */
    uint8_t nonce[16];
    uint64_t tag; /* with kind and sender: what a receiver asks for */
    uint64_t value[2];
};

struct wr_mailbox {
    struct wr_mail_address address;
    int listener, bell;       /* bell: datagrams wake a process that sleeps in epoll */
    struct wr_list arrived;   /* letters that nobody has asked for yet, oldest first */
    struct wr_list callers;   /* connections whose letter has not come yet */
    struct wr_list ties;      /* connections that are held open so that their end is seen */
};

/* Makes the sockets under a random name. WEIR_ERR_UNSUPPORTED where there are no abstract sockets. */
weir_status wr_mailbox_open(struct wr_mailbox *box, weir_error *err);
void wr_mailbox_close(struct wr_mailbox *box);

/* Sends a letter with a descriptor (-1: none); magic and nonce are filled in. Waits at most until `deadline` for room.
 * WEIR_ERR_PEER_LOST when the box no longer exists. */
weir_status wr_mail_send(const struct wr_mail_address *to, struct wr_letter *letter, int fd, int64_t deadline,
                         weir_error *err);

/* Waits for the oldest letter of that kind, sender and tag; *fd is the caller's, or -1. WEIR_ERR_TIMEOUT, or
 * WEIR_ERR_PEER_LOST when the box at `from` vanishes meanwhile. */
weir_status wr_mail_take(struct wr_mailbox *box, const struct wr_mail_address *from, int kind, int sender, uint64_t tag,
                         int64_t deadline, struct wr_letter *letter, int *fd, weir_error *err);

/* Takes in what has come, without waiting. */
void wr_mail_collect(struct wr_mailbox *box);

/* Ties this process to the box: a connection that the kernel ends when the other process dies. *pid is the process that
 * owns the box, in this process's numbers (0: not visible from here). */
weir_status wr_mail_tie(const struct wr_mail_address *to, int sender, int *fd, pid_t *pid, weir_error *err);

/* Whether the box still exists. */
bool wr_mail_alive(const struct wr_mail_address *to);

/* Rings the bell of the box, from this box's bell socket. */
void wr_mail_ring(struct wr_mailbox *box, const struct wr_mail_address *to);
/* Takes all rings out of this box's bell. */
void wr_mail_silence(struct wr_mailbox *box);

#endif
