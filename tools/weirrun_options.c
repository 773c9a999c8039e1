/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/weirrun_options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/error.h"
#include "topo/topo.h"

#define RANKS_MAX 1048576

const char wr_run_help[] =
    "usage: weirrun -n N [options] [--] PROGRAM [ARGUMENT ...]\n"
    "Starts N processes of a program as one weir job.\n"
    "\n"
    "  -n, --ranks N            number of ranks (default: the sum of the slots of --host)\n"
    "      --nodes K            make the ranks look as if they sat on K nodes\n"
    "      --placement P        how ranks are placed on those nodes, or without --nodes on the hosts:\n"
    "                           block, cyclic, random[:SEED], list:N,N,...\n"
    "      --bind B             core, numa or none (default: core if there are enough cores, else none)\n"
    "      --host H[:S],...     hosts and how many ranks each takes (default: all ranks on this host)\n"
    "      --rsh CMD            how other hosts are reached: CMD HOST COMMAND (default: ssh)\n"
    "      --agent-path PATH    weirrun on the other hosts (default: the same path as here)\n"
    "      --iface ADDRESS      address of this host, or its network interface, that other hosts can reach\n"
    "      --wdir DIR           working directory of the ranks (default: the current one)\n"
    "      --env NAME[=VALUE]   a variable for the ranks; without a value, the one it has here\n"
    "      --on-failure ACTION  kill or continue: what happens to the others when a rank fails (default: "
    "kill)\n"
    "      --grace TIME         between the request to end and SIGKILL (default: 2s)\n"
    "      --timeout TIME       end the job after this time, with exit code 124\n"
    "      --tag-output         start each line of output with [rank]\n"
    "  -h, --help               this text\n"
    "  -V, --version            the version\n"
    "\n"
    "The exit code is that of the first rank that failed (128 + the number of the signal that killed it), 2 "
    "for a wrong\n"
    "command line. The manual page weirrun(1) says more.\n";

enum option_id {
    OPT_NODES = 256,
    OPT_PLACEMENT,
    OPT_BIND,
    OPT_HOST,
    OPT_RSH,
    OPT_AGENT_PATH,
    OPT_IFACE,
    OPT_WDIR,
    OPT_ENV,
    OPT_ON_FAILURE,
    OPT_GRACE,
    OPT_TIMEOUT,
    OPT_TAG_OUTPUT,
    OPT_AGENT
};

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'n'},
    {"nodes", required_argument, NULL, OPT_NODES},
    {"placement", required_argument, NULL, OPT_PLACEMENT},
    {"bind", required_argument, NULL, OPT_BIND},
    {"host", required_argument, NULL, OPT_HOST},
    {"rsh", required_argument, NULL, OPT_RSH},
    {"agent-path", required_argument, NULL, OPT_AGENT_PATH},
    {"iface", required_argument, NULL, OPT_IFACE},
    {"wdir", required_argument, NULL, OPT_WDIR},
    {"env", required_argument, NULL, OPT_ENV},
    {"on-failure", required_argument, NULL, OPT_ON_FAILURE},
    {"grace", required_argument, NULL, OPT_GRACE},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"tag-output", no_argument, NULL, OPT_TAG_OUTPUT},
    {"agent", no_argument, NULL, OPT_AGENT}, /* how weirrun starts itself on another host */
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static weir_status bad(weir_error *err, const char *option, const char *value, const char *allowed)
{
    return wr_error_set(err, WEIR_ERR_INVALID, "see weirrun --help", "%s %s is not valid: it must be %s", option, value,
                        allowed);
}

/* The index of a word in a NULL-terminated list, or -1. */
static int word_index(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], word))
            return i;
    return -1;
}

static weir_status parse_time(const char *option, const char *value, int64_t *ns, weir_error *err)
{
    if (!wr_parse_time(value, ns) || *ns < 0)
        return bad(err, option, value, "a time such as 30, 1.5s, 200ms, 2m or inf");
    return WEIR_OK;
}

/* ---- --host ---- */

/* Whether a name means this host. */
static bool is_this_host(const char *name)
{
    char own[256] = "";
    gethostname(own, sizeof own - 1);
    size_t plain = strcspn(own, ".");
    return !strcmp(name, "localhost") || !strcmp(name, "127.0.0.1") || !strcmp(name, "::1") || !strcmp(name, own) ||
           (strlen(name) == plain && !strncmp(name, own, plain));
}

/* Adds slots to a host; a new name makes a new host. There is room. */
static void add_host(struct wr_run_options *o, const char *name, int64_t slots)
{
    bool local = is_this_host(name);
    for (int i = 0; i < o->nhosts; i++)
        if (!strcmp(o->hosts[i].name, name) || (local && o->hosts[i].local)) {
            o->hosts[i].slots += slots;
            return;
        }
    o->hosts[o->nhosts++] = (struct wr_run_host){.name = name, .slots = slots, .local = local};
}

/* "h1:4,h2,[fe80::1]:2" */
static weir_status parse_hosts(struct wr_run_options *o, const char *list, weir_error *err)
{
    size_t max = 1;
    for (const char *p = list; *p; p++)
        max += *p == ',';
    free(o->host_list);
    free(o->hosts);
    o->nhosts = 0;
    o->host_list = strdup(list);
    o->hosts = calloc(max, sizeof *o->hosts);
    if (!o->host_list || !o->hosts)
        return wr_error_memory(err, max * sizeof *o->hosts, "the hosts");
    char *rest = o->host_list;
    for (char *item; (item = strsep(&rest, ","));) {
        int64_t slots = 1;
        char *bracket = item[0] == '[' ? strchr(item, ']') : NULL;
        char *colon = strchr(bracket ? bracket : item, ':');
        if (colon) {
            *colon = '\0';
            if (!wr_parse_int(colon + 1, &slots) || slots < 1 || slots > RANKS_MAX)
                return bad(err, "--host", list, "HOST[:SLOTS],..., with at least one slot a host");
        }
        if (bracket) {
            *bracket = '\0';
            item++;
        }
        /* a name that starts with '-' would be taken for an option of the remote shell */
        if (!*item || *item == '-' || strpbrk(item, " \t\n'\""))
            return bad(err, "--host", list, "HOST[:SLOTS],...");
        add_host(o, item, slots);
    }
    return WEIR_OK;
}

/* Fills in host_of. */
static weir_status place_ranks(struct wr_run_options *o, weir_error *err)
{
    weir_error why;
    int64_t given = 0;
    if (o->places_on_hosts && wr_placement_nodes(o->nhosts, o->placement, (int)o->size, o->host_of, &why))
        return wr_error_set(err, WEIR_ERR_INVALID, "its nodes are the hosts of --host, from 0",
                            "--placement %s does not fit %d hosts: %s", o->placement, o->nhosts, why.message);
    for (int i = 0; i < o->nhosts && !o->places_on_hosts; i++)
        for (int64_t n = 0; n < o->hosts[i].slots && given < o->size; n++)
            o->host_of[given++] = i;
    return WEIR_OK;
}

weir_status wr_run_options_spread(struct wr_run_options *o, bool virtual_nodes, weir_error *err)
{
    int64_t slots = 0, *at;
    for (int i = 0; i < o->nhosts; i++)
        slots += o->hosts[i].slots;
    if (o->size == 0)
        o->size = slots;
    if (o->size > slots)
        return wr_error_set(err, WEIR_ERR_INVALID, "give more slots, as in --host h1:4,h2:4",
                            "%lld ranks do not fit: --host gives %lld slots", (long long)o->size, (long long)slots);
    if (o->size > RANKS_MAX)
        return wr_error_set(err, WEIR_ERR_INVALID, NULL, "--host gives more than %d slots", RANKS_MAX);
    o->places_on_hosts = o->placement && !virtual_nodes && o->nhosts > 1;
    o->host_of = calloc((size_t)o->size, sizeof *o->host_of);
    at = o->rank_store = calloc((size_t)o->size, sizeof *o->rank_store);
    if (!o->host_of || !o->rank_store)
        return wr_error_memory(err, (size_t)o->size * sizeof *o->rank_store, "the placement");
    weir_status status = place_ranks(o, err);
    for (int i = 0; i < o->nhosts && !status; i++) {
        struct wr_run_host *host = &o->hosts[i];
        host->rank = at;
        for (int64_t rank = 0; rank < o->size; rank++)
            if (o->host_of[rank] == i)
                *at++ = rank;
        host->count = at - host->rank;
        if (host->count > host->slots)
            status = wr_error_set(err, WEIR_ERR_INVALID, "give more slots, as in --host h1:4,h2:4",
                                  "--placement %s gives host %s %lld ranks, and --host %lld slots", o->placement,
                                  host->name, (long long)host->count, (long long)host->slots);
    }
    return status;
}

/* ---- --env ---- */

static weir_status add_env(struct wr_run_options *o, const char *entry, weir_error *err)
{
    const char *value = NULL;
    char *copy = NULL;
    if (entry[0] == '=' || entry[0] == '\0')
        return bad(err, "--env", entry, "NAME=VALUE or NAME");
    if (!strchr(entry, '=')) {
        value = wr_env_get(NULL, entry);
        if (!value)
            return wr_error_set(err, WEIR_ERR_INVALID, "give it as --env NAME=VALUE",
                                "--env %s: the variable is not set here", entry);
    }
    const char **env = realloc(o->env, (o->nenv + 1) * sizeof *env);
    if (env)
        o->env = env;
    char **copies = realloc(o->env_copies, (o->nenv + 1) * sizeof *copies);
    if (copies)
        o->env_copies = copies;
    if (!env || !copies || (value && asprintf(&copy, "%s=%s", entry, value) < 0))
        return wr_error_memory(err, sizeof *env, "--env");
    o->env[o->nenv] = copy ? copy : entry;
    o->env_copies[o->nenv++] = copy;
    return WEIR_OK;
}

/* ---- all ---- */

static weir_status parse_ranks(struct wr_run_options *o, const char *value, weir_error *err)
{
    if (!wr_parse_int(value, &o->size) || o->size < 1 || o->size > RANKS_MAX)
        return bad(err, "-n", value, "a number of ranks in 1.." WR_STR(RANKS_MAX));
    return WEIR_OK;
}

static weir_status parse_words(struct wr_run_options *o, int id, const char *value, weir_error *err)
{
    static const char *const binds[] = {"core", "numa", "none", NULL};
    static const enum wr_bind bind_of[] = {WR_BIND_CORE, WR_BIND_NUMA, WR_BIND_NONE};
    static const char *const actions[] = {"kill", "continue", NULL};
    int i = word_index(id == OPT_BIND ? binds : actions, value);
    if (i < 0 && id == OPT_BIND)
        return bad(err, "--bind", value, "core, numa or none");
    if (i < 0)
        return bad(err, "--on-failure", value, "kill or continue");
    if (id == OPT_BIND)
        o->bind = bind_of[i];
    else
        o->keep_going = i == 1;
    return WEIR_OK;
}

static weir_status set_option(struct wr_run_options *o, int id, const char *value, weir_error *err)
{
    switch (id) {
    case 'n':
        return parse_ranks(o, value, err);
    case OPT_BIND:
    case OPT_ON_FAILURE:
        return parse_words(o, id, value, err);
    case OPT_HOST:
        return parse_hosts(o, value, err);
    case OPT_ENV:
        return add_env(o, value, err);
    case OPT_GRACE:
        return parse_time("--grace", value, &o->grace_ns, err);
    case OPT_TIMEOUT:
        return parse_time("--timeout", value, &o->timeout_ns, err);
    case OPT_NODES:
        o->nodes = value;
        break;
    case OPT_PLACEMENT:
        o->placement = value;
        break;
    case OPT_RSH:
        if (!value[strspn(value, " \t")])
            return bad(err, "--rsh", "''", "a command such as ssh or 'ssh -p 2222'");
        o->rsh = value;
        break;
    case OPT_AGENT_PATH:
        o->agent_path = value;
        break;
    case OPT_IFACE:
        o->iface = value;
        break;
    case OPT_WDIR:
        o->directory = value;
        break;
    case OPT_TAG_OUTPUT:
        o->tag_output = true;
        break;
    case OPT_AGENT:
        o->agent = true;
        break;
    case 'h':
        o->help = true;
        break;
    default:
        o->version = true;
    }
    return WEIR_OK;
}

weir_status wr_run_options_parse(struct wr_run_options *o, int argc, char **argv, weir_error *err)
{
    weir_status status = WEIR_OK;
    memset(o, 0, sizeof *o);
    o->rsh = "ssh";
    o->timeout_ns = WR_TIME_INF;
    o->grace_ns = (int64_t)2 * 1000000000;
    opterr = 0;
    for (int id; !status && (id = getopt_long(argc, argv, "+:n:hV", long_options, NULL)) != -1;) {
        const char *given = argv[optind - 1];
        if (id == '?' && optopt > 0 && optopt < 256)
            return wr_error_set(err, WEIR_ERR_INVALID, "see weirrun --help", "there is no option -%c", optopt);
        if (id == '?')
            return wr_error_set(err, WEIR_ERR_INVALID, "see weirrun --help",
                                "there is no option %s, or it takes no value", given);
        if (id == ':')
            return wr_error_set(err, WEIR_ERR_INVALID, "see weirrun --help", "option %s needs a value", given);
        status = set_option(o, id, optarg, err);
        if (o->help || o->version || o->agent)
            return status;
    }
    if (status)
        return status;
    if (o->size == 0 && !o->hosts)
        return wr_error_set(err, WEIR_ERR_INVALID, "give it, as in weirrun -n 4 PROGRAM",
                            "the number of ranks (-n) is missing");
    if (optind == argc)
        return wr_error_set(err, WEIR_ERR_INVALID, "see weirrun --help", "the program to run is missing");
    o->program = argv + optind;
    if (!o->hosts) {
        char list[64];
        snprintf(list, sizeof list, "localhost:%lld", (long long)o->size);
        status = parse_hosts(o, list, err);
    }
    return status;
}

void wr_run_options_free(struct wr_run_options *o)
{
    for (size_t i = 0; i < o->nenv; i++)
        free(o->env_copies[i]);
    free(o->env_copies);
    free(o->env);
    free(o->host_list);
    free(o->hosts);
    free(o->host_of);
    free(o->rank_store);
}
