#include "bench/comm/profiles.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace bench {
namespace {

using leat::Duration;
using Json = nlohmann::ordered_json;
using Milliseconds = std::chrono::duration<double, std::milli>;
namespace comm = leat::comm;

constexpr int kRanks = 8;
constexpr std::size_t kPiece = 4'096'000;

Duration time_of(double milliseconds) { return Duration(std::llround(milliseconds * 1e6)); }

double milliseconds(Duration time) { return Milliseconds(time).count(); }

// How long an all-reduce of `bytes` takes, in milliseconds.
double link_time(std::size_t bytes, double bandwidth) {
  return 2.0 * (kRanks - 1) / kRanks * static_cast<double>(bytes) / bandwidth * 1e3;
}

double step_time(const Profile& profile, double bandwidth, comm::Policy policy,
                 std::size_t in_flight) {
  StepInstance instance;
  instance.ranks.assign(kRanks, profile.layers);
  instance.bytes = profile.bytes;
  instance.bandwidth = bandwidth;
  instance.options.policy = policy;
  instance.options.partition_bytes = kPiece;
  instance.options.credit_bytes = in_flight * kPiece;
  const std::vector<Duration> times = run_step(instance);
  return milliseconds(*std::ranges::max_element(times));
}

}  // namespace

std::vector<Profile> read_profiles(const std::string& path) {
  std::vector<Profile> profiles;
  try {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot be read; give the path of a JSON file");
    const Json document = Json::parse(file);
    for (const auto& [name, model] : document.at("profiles").items()) {
      Profile profile;
      profile.name = name;
      for (const Json& layer : model.at("layers")) {
        profile.bytes.push_back(layer.at(1).get<std::size_t>());
        profile.layers.forward.push_back(time_of(layer.at(2).get<double>()));
        profile.layers.backward.push_back(time_of(layer.at(3).get<double>()));
      }
      if (profile.bytes.empty()) throw std::runtime_error("profiles." + name + " has no layers");
      profiles.push_back(std::move(profile));
    }
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ": " + error.what());
  }
  if (profiles.empty()) throw std::runtime_error(path + ": \"profiles\" is empty");
  return profiles;
}

ProfileRow measure(const Profile& profile, double gigabits) {
  const double bandwidth = gigabits * 1e9 / 8;
  ProfileRow row;
  double computing = 0;
  double link = 0;
  std::vector<double> forward_from(profile.bytes.size() + 1);
  std::vector<double> backward_to(profile.bytes.size() + 1);
  for (std::size_t i = profile.bytes.size(); i-- > 0;) {
    forward_from[i] = forward_from[i + 1] + milliseconds(profile.layers.forward[i]);
    backward_to[i] = backward_to[i + 1] + milliseconds(profile.layers.backward[i]);
  }
  computing = forward_from[0] + backward_to[0];
  for (std::size_t i = 0; i < profile.bytes.size(); ++i) {
    link += link_time(profile.bytes[i], bandwidth);
    row.bound = std::max(row.bound, backward_to[i] + link + forward_from[i]);
  }
  row.no_overlap = computing + link;
  row.bucketed = step_time(profile, bandwidth, comm::Policy::kBucketed, 1);
  row.fifo = step_time(profile, bandwidth, comm::Policy::kFifo, 1);
  row.priority_one = step_time(profile, bandwidth, comm::Policy::kPriority, 1);
  row.priority_four = step_time(profile, bandwidth, comm::Policy::kPriority, 4);
  return row;
}

}  // namespace bench
