/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every configuration variable of weir, one line each. This table makes the struct, the parser, `weir-info --config`
 * and the manual page weir-config(7).
 *
 * X(KIND, field, NAME, DEFAULT, ALLOWED, SCOPE, HELP)
 *   KIND     BOOL   bool
 *            INT    int64_t; ALLOWED is "min..max"
 *            BYTES  uint64_t, bytes with K, M, G or "inf"
 *            TIME   int64_t nanoseconds, written with us, ms, s, m, h or "inf"; a bare number is seconds
 *            ENUM   int, the index of the word in ALLOWED "word|word|word"
 *            TEXT   char *, NULL when empty
 *   NAME     without the prefix WEIR_
 *   SCOPE    USER   set by people
 *            JOB    set by weirrun for the processes that it starts
 *   HELP     one sentence, starting in lower case, without a full stop
 */
#ifndef WR_CONFIG_TABLE_H
#define WR_CONFIG_TABLE_H

#define WR_CONFIG_TABLE(X)                                                                                             \
    X(TEXT, log, LOG, "warn", "LEVEL|COMPONENT[:LEVEL],...", USER,                                                           \
      "what is logged: off, error, warn, info, debug or trace, for all or for one component (info), e.g. warn,boot:debug,plan")    \
    X(TEXT, log_file, LOG_FILE, "", "path, %r is the rank", USER, "where the log goes instead of the standard error")  \
    X(ENUM, boot, BOOT, "auto", "auto|tcp|pmix|pmi2|pmi1|single", USER,                                                \
      "how ranks find each other; auto detects the launcher")                                                          \
    X(TIME, boot_timeout, BOOT_TIMEOUT, "120s", "", USER,                                                              \
      "how long weir_init waits for the other ranks before it gives up")                                               \
    X(TEXT, pmix_lib, PMIX_LIB, "", "path", USER, "PMIx client library to open instead of the system's libpmix.so.2")  \
    X(TEXT, pmi2_lib, PMI2_LIB, "", "path", USER, "PMI-2 client library to open instead of the system's libpmi2.so.0") \
    X(INT, nodes, NODES, "0", "0..1048576", USER,                                                                      \
      "number of virtual nodes that the ranks are divided into; 0 uses the real nodes")                                \
    X(TEXT, placement, PLACEMENT, "block", "block|cyclic|random[:SEED]|list:N,N,...", USER,                            \
      "how ranks are placed on virtual nodes: block, cyclic, random, or the node of each rank")                        \
    X(TEXT, topology_file, TOPOLOGY_FILE, "", "path", USER,                                                            \
      "switches of the network, in the syntax of Slurm's topology.conf; virtual nodes may stand in it as node0, node1; "   \
      "for collectives the file of rank 0 counts")                                                                        \
    X(TEXT, hwloc_xml, HWLOC_XML, "", "path", USER,                                                                    \
      "describe this host from a file of lstopo instead of asking it; ranks take another machine's cores in turn")     \
    X(TEXT, hwloc_synthetic, HWLOC_SYNTHETIC, "", "hwloc synthetic string", USER,                                      \
      "describe this host by a synthetic description, e.g. 'package:2 numa:4 l3:2 core:8 pu:1'")                       \
    X(TIME, spin, SPIN, "50us", "", USER,                                                                              \
      "how long a wait polls before it gives the core away; ranks that outnumber the cores give it away sooner")       \
    X(ENUM, shm_cma, SHM_CMA, "auto", "auto|off", USER,                                                                \
      "memory that is not shared moves on the node by cross-memory attach where the kernel allows it; off stages it")  \
    X(ENUM, huge_pages, HUGE_PAGES, "auto", "auto|off", USER,                                                          \
      "shared memory uses huge pages where they can be had")                                                           \
    X(TEXT, ucx_tls, UCX_TLS, "", "UCX transports", USER,                                                              \
      "transports that UCX may use for weir, in the syntax of UCX_TLS; without either, all but UCX's shared memory")   \
    X(ENUM, ucx_put, UCX_PUT, "auto", "auto|rma|message", USER,                                                        \
      "how UCX moves data: by its puts, in messages, or (auto) in messages where it would emulate puts")               \
    X(TEXT, ofi_provider, OFI_PROVIDER, "", "name", USER,                                                              \
      "libfabric's provider, e.g. verbs;ofi_rxm or verbs, net, tcp;ofi_rxm; unset takes the fastest that opens")       \
    X(TEXT, nic, NIC, "", "name,...", USER,                                                                            \
      "network interfaces to use, e.g. mlx5_0 or eth0,eth1, the first for messages; unset takes those nearest to the rank") \
    X(INT, rails, RAILS, "0", "0..8", USER,                                                                            \
      "network interfaces that one rank stripes large transfers over; 0 divides the near ones among the ranks of the node") \
    X(ENUM, transport, TRANSPORT, "auto", "auto|shm|ofi|ucx", USER,                                                    \
      "what moves bytes: auto uses shm on a node and WEIR_NETWORK between nodes; a name uses only that one")           \
    X(ENUM, network, NETWORK, "auto", "auto|ofi|ucx", USER,                                                            \
      "the library used between nodes when WEIR_TRANSPORT is auto: libfabric (ofi), UCX, or (auto) the faster one")                            \
    X(TEXT, cache_dir, CACHE_DIR, "", "path or off", USER,                                                             \
      "where the measured speeds of networks are kept; unset is $XDG_CACHE_HOME/weir or ~/.cache/weir; off keeps nothing")\
    X(BOOL, watch, WATCH, "yes", "", USER,                                                                              \
      "find out by idle TCP connections that a rank on another node has died; one descriptor a rank in use")           \
    X(TIME, peer_timeout, PEER_TIMEOUT, "10s", "", USER,                                                               \
      "a host that does not answer for so long is taken for lost")                                                     \
    X(ENUM, io, IO, "auto", "auto|uring|thread", USER,                                                                 \
      "what reads and writes offloaded optimizer states: io_uring, threads, or (auto) io_uring where it is allowed")   \
    X(ENUM, progress, PROGRESS, "none", "none|thread", USER,                                                           \
      "what moves operations while the program computes: nothing, or a thread of each rank")                           \
    X(INT, progress_core, PROGRESS_CORE, "-1", "-1..1048575", USER,                                                    \
      "core for that thread, by hwloc's logical index; -1 takes one of the rank's binding that no rank needs, if any") \
    X(TIME, warn_after, WARN_AFTER, "60s", "", USER,                                                                    \
      "a wait in a collective that takes longer is reported once: which ranks have not come and what they called last")   \
    X(TIME, timeout, TIMEOUT, "inf", "", USER,                                                                          \
      "a wait in a collective that takes longer is an error that names the ranks that have not come")                    \
    X(BYTES, mem_limit, MEM_LIMIT, "inf", "", USER, "most bytes that weir_mem_alloc gives out to a rank")                \
    X(TEXT, algo, ALGO, "", "COLLECTIVE:ALGORITHM,...", USER,                                                           \
      "algorithms to use instead of the chosen ones, e.g. allgather:ring; what rank 0 says holds for all")             \
    X(TEXT, tuning_file, TUNING_FILE, "", "path or off", USER,                                                          \
      "costs of steps that plans are chosen by, as weir-tune writes them; unset is tuning.HOST in the cache folder, if there") \
    X(BOOL, reproducible, REPRODUCIBLE, "no", "", USER,                                                                  \
      "reductions give the same bits whatever the placement, the nodes and the algorithm; they may move more bytes")     \
    X(ENUM, partials, PARTIALS, "fp32", "fp32|same", USER,                                                               \
      "sums of fp16 and bf16 on their way between ranks: fp32, rounded once at the end, or of the same type, half as long") \
    X(BYTES, plan_cache, PLAN_CACHE, "256M", "", USER,                                                                 \
      "most bytes of scratch memory that the plans kept for further calls of a kind may hold")                         \
    X(BYTES, unexpected_limit, UNEXPECTED_LIMIT, "64M", "", USER,                                                      \
      "most bytes of messages that a rank keeps for receives that have not been posted yet")                           \
    X(TEXT, trace, TRACE, "", "path, %r is the rank, %t the transport", USER,                                          \
      "write every operation of the transports there; a path that ends in .json gives events for Chrome or Perfetto")  \
    X(TEXT, fault, FAULT, "", "word;word...", USER,                                                                    \
      "faults to make for testing: seed=N, rank=N, drop=, dup=, delay=, error=, dead=, refuse=, e.g. 'delay=get:5ms;drop=am:0.01'") \
    X(BOOL, contrary, CONTRARY, "no", "", USER,                                                                        \
      "for testing: makes the transports as awkward as their rules allow")                                             \
    X(INT, contrary_seed, CONTRARY_SEED, "1", "0..9223372036854775807", USER,                                          \
      "start of the random choices of WEIR_CONTRARY")                                                                  \
    X(INT, job_rank, JOB_RANK, "-1", "-1..2147483647", JOB, "rank of this process")                                    \
    X(INT, job_size, JOB_SIZE, "0", "0..2147483647", JOB, "number of processes in the job")                            \
    X(TEXT, job_server, JOB_SERVER, "", "host:port", JOB, "where the launcher's bootstrap server listens")             \
    X(TEXT, job_secret, JOB_SECRET, "", "32 hexadecimal digits", JOB, "the job's secret, answers the server's challenge") \
    X(INT, job_node, JOB_NODE, "-1", "-1..2147483647", JOB, "number of the host that this process was started on")

#endif
