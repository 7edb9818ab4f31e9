#include "leat/feeder/stages/check_resume.h"

#include <string>
#include <utility>

#include "leat/csp/error.h"
#include "leat/feeder/plan/packing.h"
#include "leat/feeder/plan/sampler.h"

namespace leat::feeder {

std::vector<EpochReleases> epochs_to_resume(const Dataset& dataset, const State& head,
                                            std::string_view text) {
  State before = State::parse(text);
  const auto require = [](const auto& was, const auto& is, const std::string& what) {
    if (was == is) return;
    throw Error("leat: the state to resume from is of a run with " + what + " " + was + ", not " +
                is + "; give the same dataset and options as then");
  };
  require(std::to_string(before.samples), std::to_string(head.samples), "samples");
  if (before.dataset != 0 && head.dataset != 0 && before.dataset != head.dataset) {
    if (dataset.as_batch_source() != nullptr) {
      throw Error("leat: the state to resume from is of a run on another dataset than this \"" +
                  std::string(dataset.name()) +
                  "\": give the same dataset as then, or accept this one (accept_dataset=True)");
    }
    throw Error("leat: the state to resume from is of a run on other files than those of " +
                std::string(dataset.name()) +
                ": their names (without folders) or sizes differ, or how it is composed; give the "
                "same files, or, if they hold the same samples in the same order, "
                "accept them (accept_dataset=True; in C++, State::dataset = 0)");
  }
  require(std::to_string(before.elements), std::to_string(head.elements), "packed elements");
  require(std::to_string(before.batch_size), std::to_string(head.batch_size), "batch_size");
  require(std::to_string(before.seed), std::to_string(head.seed), "seed");
  require(std::string(to_string(before.order)), std::string(to_string(head.order)), "order");
  require(std::string(to_string(before.last_batch)), std::string(to_string(head.last_batch)),
          "last_batch");
  const Sampler sampler = sampler_of(dataset, head.order, head.seed);
  for (const EpochReleases& one : before.epochs) {
    if (!one.carry.has_value() || is_place(dataset, sampler, one.epoch, *one.carry)) continue;
    throw Error("leat: the state to resume from is of other data: in epoch " +
                std::to_string(one.epoch) + ", element " + std::to_string(one.carry->element) +
                " is not element " + std::to_string(one.carry->offset) +
                " of the sample at position " + std::to_string(one.carry->position) +
                ": samples have other lengths than then; give the same dataset, its files in the "
                "same order");
  }
  return std::move(before.epochs);
}

}  // namespace leat::feeder
