# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash source-path=SCRIPTDIR/../..
# Sourced by tests that need several hosts: those of weir-hosts. Where they cannot be had the test is skipped.
. "$top_srcdir/perf/namespaces.sh"
