// A software stand-in for NCCL, for tests: a libnccl.so.2 of its own, which comm::open("nccl")
// opens by LEAT_NCCL_LIBRARY. It works on the streams of the stand-in for the CUDA runtime.
//
// It is strict. What NCCL leaves undefined, or answers by waiting for ever, ends the program with a
// line that says what was wrong: ranks whose k-th operations on a communicator differ, memory that
// is not the device's, a device that is not current, a call while another one is in progress.
//
// Modelled, as nccl.h and its guide document it: communicators that are made, ended and aborted
// without blocking; groups; operators that weigh; the error of a rank alone. Every call that
// enqueues is in progress until it is asked about. ncclCommFinalize ends once all ranks have called
// it. Sums are from rank 0 up, in fp32 for small types, rounded once.
//
// Not modelled, hence never shown by it: times; what NCCL's order of additions is; how kernels of
// several communicators share a GPU; the network; the real library's failures.
//
// This header is what tests ask it, and make it do. Thread-safe.
#pragma once

#include <cstdint>

namespace leat::nccl_stand_in {

/// Back to the state of a process that has not called NCCL. No communicator may be left.
void reset();
/// What ncclGetVersion tells.
void set_version(int version);
/// The n-th next call (1: the next) fails with ncclSystemError. An abort that fails has aborted.
void fail_call(std::uint64_t n);
/// Whether that call has come.
[[nodiscard]] bool has_failed();
/// The n-th next operation that a rank's stream reaches never ends, until its communicator is
/// aborted; if `with_error`, the communicator says so.
void never_end(std::uint64_t n, bool with_error = false);
/// Communicators that are made from now on stay in progress.
void never_init();
/// Communicators, and operators, that were made and not ended.
[[nodiscard]] std::uint64_t live();
/// Operations that streams have run since reset(), counted on each rank.
[[nodiscard]] std::uint64_t operations();

}  // namespace leat::nccl_stand_in
