/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file
 * Everything that weir offers, in one include.
 */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <weir/version.h>
#include <weir/status.h>
#include <weir/context.h>
#include <weir/topo.h>
#include <weir/type.h>
#include <weir/comm.h>
#include <weir/grid.h>
#include <weir/mem.h>
#include <weir/p2p.h>
#include <weir/coll.h>
#include <weir/pipe.h>
#include <weir/pipe_engine.h>
#include <weir/plan.h>
#include <weir/coll_op.h>
#include <weir/coll_v.h>
#include <weir/ckpt.h>
#include <weir/rule.h>
#include <weir/schedule.h>
#include <weir/sp.h>
#include <weir/tp.h>
#include <weir/vector.h>
#include <weir/zero.h>
#include <weir/zero_ckpt.h>
#include <weir/zero_config.h>
#include <weir/zero_state.h>
#include <weir/zero_trace.h>

#endif
