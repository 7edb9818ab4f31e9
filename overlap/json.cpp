#include "leat/overlap/json.h"

#include <chrono>
#include <nlohmann/json.hpp>

namespace overlap {
namespace {

using nlohmann::ordered_json;

ordered_json of(const leat::feeder::StageShares& shares) {
  return {{"busy", shares.busy}, {"starved", shares.starved}, {"blocked", shares.blocked}};
}

ordered_json of(const leat::feeder::Quantiles& quantiles) {
  return {{"p50", quantiles.p50}, {"p99", quantiles.p99}};
}

ordered_json of(const Shape& shape) {
  const char* const computing = shape.computing == Computing::kBusy  ? "busy"
                                : shape.computing == Computing::kCpu ? "cpu"
                                                                     : "gemm";
  return {{"name", shape.name},
          {"batch_size", shape.batch_size},
          {"sample_bytes", shape.sample_bytes},
          {"tensors", shape.tensors},
          {"reading", shape.reading == Reading::kWaiting ? "waiting" : "computing"},
          {"t_read", seconds(shape.t_read)},
          {"jitter", shape.jitter},
          {"straggler_every", shape.straggler_every},
          {"straggler_factor", shape.straggler_factor},
          {"computing", computing},
          {"t_c", seconds(shape.t_c)},
          {"products", shape.products},
          {"prefetch_depth", shape.prefetch_depth},
          {"workers", shape.workers},
          {"pinned_slots", shape.pinned_slots},
          {"max_pinned_bytes", shape.max_pinned_bytes},
          {"max_device_bytes", shape.max_device_bytes},
          {"seed", shape.seed}};
}

ordered_json of(const RankResult& fed) {
  const leat::feeder::Stats& stats = fed.stats;
  // Returns null if no step or copy was sampled.
  const auto sampled = [&](const ordered_json& figure) {
    return stats.is_measured() ? figure : ordered_json();
  };
  return {{"t_step", fed.t_step},
          {"overlap_efficiency", Measurement::overlap_efficiency(fed)},
          {"samples_per_second", sampled(stats.samples_per_second)},
          {"t_read", stats.t_read},
          {"t_x", sampled(stats.t_x)},
          {"t_c", sampled(stats.t_c)},
          {"sampled_steps", stats.sampled_steps},
          {"timed_copies", stats.timed_copies},
          {"step", sampled(of(stats.step))},
          {"bubble", sampled(of(stats.bubble))},
          {"reader", sampled(of(stats.reader))},
          {"copier", sampled(of(stats.copier))},
          {"consumer", sampled(of(stats.consumer))},
          {"device_slots", stats.device_slots},
          {"pinned_slots", stats.pinned_slots},
          {"past_cache_bytes", stats.past_cache_bytes}};
}

ordered_json of(const Measurement& m) {
  ordered_json ranks = ordered_json::array();
  for (const RankResult& fed : m.ranks) ranks.push_back(of(fed));
  ordered_json all = {{"shape", of(m.shape)},
                      {"device", m.device},
                      {"description", m.description},
                      {"compute", m.compute},
                      {"devices", m.devices},
                      {"virtual_time", m.virtual_time},
                      {"steps", m.steps},
                      {"link_peak", m.link_peak},
                      {"t_x_alone", m.t_x_alone},
                      {"t_c_alone", m.t_c_alone},
                      {"t_replay", m.t_replay},
                      {"t_serial", m.t_serial},
                      {"excess", m.excess},
                      {"t_step", m.slowest().t_step},
                      {"overlap_efficiency", m.overlap_efficiency()},
                      {"feed_efficiency", m.feed_efficiency()},
                      {"hidden_fraction", m.hidden_fraction()},
                      {"interference", m.interference()},
                      {"link_efficiency", m.link_efficiency()},
                      {"accelerator_utilization", m.accelerator_utilization()},
                      {"speed_up", m.speed_up()},
                      {"headspace", m.headspace()},
                      {"core_seconds_per_gb",
                       m.virtual_time ? ordered_json() : ordered_json(m.core_seconds_per_gb())},
                      {"pinned_bytes", m.pinned_bytes},
                      {"device_bytes", m.device_bytes},
                      {"bottleneck", m.slowest().stats.bottleneck()},
                      {"ranks", ranks}};
  if (!m.trace.empty()) all["trace"] = ordered_json::parse(m.trace);
  return all;
}

}  // namespace

std::string json_report(const Provenance& from, const std::vector<Measurement>& runs,
                        const Sweep* sweep) {
  ordered_json all = {{"leat-overlap", 1},
                      {"command", from.command},
                      {"machine", from.machine},
                      {"date", from.date},
                      {"runs", ordered_json::array()}};
  for (const Measurement& run : runs) all["runs"].push_back(of(run));
  if (sweep != nullptr) {
    all["sweep"] = ordered_json::array();
    for (const SweepCell& cell : sweep->cells) {
      ordered_json one = {
          {"ratio", cell.ratio}, {"step", seconds(cell.step)}, {"depth", cell.depth}};
      if (cell.result.has_value()) {
        one["result"] = of(*cell.result);
      } else {
        one["why_not"] = cell.why_not;
      }
      all["sweep"].push_back(std::move(one));
    }
  }
  // Replaces bytes that are not UTF-8, which a file's name may have. NaN (not known) becomes null.
  return all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace overlap
