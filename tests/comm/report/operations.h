// Operations that flight recorders have written.
#pragma once

#include <cstdint>

#include "leat/comm/recorder/flight_recorder.h"

namespace leat::comm::report_test {

inline Operation barrier(std::uint64_t number) {
  return {.signature = {.kind = OperationKind::kBarrier, .number = number}};
}
inline Operation sum(std::uint64_t number, std::uint64_t count, const char* label = nullptr) {
  return {.signature = {.kind = OperationKind::kAllReduce,
                        .dtype = DType::kFloat32,
                        .count = count,
                        .number = number},
          .label = label};
}
inline Operation message(OperationKind kind, int peer, std::uint64_t key, std::uint64_t count = 5) {
  return {.signature = {.kind = kind, .dtype = DType::kInt64, .count = count, .number = key},
          .peer = peer};
}
inline constexpr auto kSend = OperationKind::kSend;
inline constexpr auto kRecv = OperationKind::kRecv;

}  // namespace leat::comm::report_test
