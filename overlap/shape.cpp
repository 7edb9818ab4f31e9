#include "leat/overlap/shape.h"

#include <chrono>
#include <cmath>
#include <random>
#include <stdexcept>
#include <string>

#include "leat/feeder/random.h"

namespace overlap {
namespace {

using namespace std::chrono_literals;

// The largest factor that is drawn. A larger one describes no real loop, and may overflow.
constexpr double kMostFactor = 1e4;

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(std::string("leat-overlap: ") + what);
}

}  // namespace

void Shape::check() const {
  require(batch_size > 0, "a batch has at least one sample");
  require(sample_bytes > 0, "a sample has at least one byte");
  require(tensors > 0 && tensors <= 64, "a sample has 1 to 64 tensors");
  require(t_read >= 0ns && t_c >= 0ns, "times are not negative");
  require(jitter >= 0 && jitter <= 4, "jitter is 0 to 4");
  require(straggler_factor >= 1 && straggler_factor <= kMostFactor,
          "a straggler takes 1 to 10,000 times as long");
  require(prefetch_depth > 0 && workers > 0, "there is at least one worker, and depth 1");
}

const std::vector<Shape>& mlperf_shapes() {
  static const std::vector<Shape> shapes = {
      {.name = "unet3d", .batch_size = 7, .sample_bytes = 146'600'628, .t_c = 323ms},
      {.name = "resnet50", .batch_size = 400, .sample_bytes = 114'660, .t_c = 224ms},
      {.name = "cosmoflow", .batch_size = 1, .sample_bytes = 2'828'486, .t_c = 3'500us},
  };
  return shapes;
}

leat::Duration read_time(const Shape& shape, std::uint64_t index) {
  double factor = 1;
  if (shape.jitter > 0) {
    leat::feeder::Random random(shape.seed, 0, index);
    // The mean, exp(mu + sigma^2 / 2), is 1.
    std::lognormal_distribution<double> distribution(-shape.jitter * shape.jitter / 2,
                                                     shape.jitter);
    factor = distribution(random);
  }
  if (shape.straggler_every > 0 && index % shape.straggler_every == shape.straggler_every - 1) {
    factor *= shape.straggler_factor;
  }
  const double time = static_cast<double>(shape.t_read.count()) * std::fmin(factor, kMostFactor);
  return leat::Duration(std::llround(time));
}

}  // namespace overlap
