// The kernels on the host. Invariants:
//
// - All three matrix products go through `multiply_add`, whose vectors run along the columns of the
//   result: each element is summed in the order of `depth`, so no sum is reassociated, and a
//   sample's result does not depend on the others in its batch.
// - The stack holds all scratch memory, 8 KiB, so that a fiber's small stack is enough.
#include "examples/03_mnist/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace mnist::host {
namespace {

// Four floats in one register of any SSE2 or NEON machine. The compilers vectorise plain loops over
// a register tile only at some optimisation levels; with the type they do at all.
using Float4 = float __attribute__((vector_size(16)));

// The tile of the result that stays in registers: 4 x 8 floats are 8 accumulators of the 16
// registers; the panel's two vectors, a broadcast and the products take most of the rest.
constexpr std::size_t kTileRows = 4;
constexpr std::size_t kTileColumns = 8;
// Rows of a packed panel: 256 x 8 floats leave room in a 32 KiB L1 cache for the left matrix.
constexpr std::size_t kPanelDepth = 256;

struct Vectors {
  Float4 low;
  Float4 high;
};
static_assert(sizeof(Vectors) == kTileColumns * sizeof(float));

using Panel = std::array<Vectors, kPanelDepth>;

// A matrix read in place; transposing it swaps the strides.
struct View {
  const float* data;
  std::size_t row_stride;
  std::size_t column_stride;

  const float* at(std::size_t row, std::size_t column) const {
    return data + row * row_stride + column * column_stride;
  }
};

// Reads or writes the first `columns` floats of a row of the tile; the others are zero.
Vectors load(const float* from, std::size_t columns) {
  std::array<float, kTileColumns> row{};
  if (columns == kTileColumns) {
    std::memcpy(row.data(), from, sizeof(row));
  } else {
    for (std::size_t j = 0; j < columns; ++j) row[j] = from[j];
  }
  Vectors vectors;
  std::memcpy(&vectors, row.data(), sizeof(row));
  return vectors;
}

void store(const Vectors& vectors, float* to, std::size_t columns) {
  std::array<float, kTileColumns> row;
  std::memcpy(row.data(), &vectors, sizeof(row));
  if (columns == kTileColumns) {
    std::memcpy(to, row.data(), sizeof(row));
  } else {
    for (std::size_t j = 0; j < columns; ++j) to[j] = row[j];
  }
}

// Copies b[depth, columns], filled up with zeros to the tile's width.
void pack(Panel& panel, const View& b, std::size_t depth, std::size_t columns) {
  for (std::size_t k = 0; k < depth; ++k) {
    std::array<float, kTileColumns> row{};
    for (std::size_t j = 0; j < columns; ++j) row[j] = *b.at(k, j);
    panel[k] = load(row.data(), kTileColumns);
  }
}

// c[rows, columns] += a[rows, depth] · panel, for at most one tile.
void multiply_tile(const View& a, const Panel& panel, std::size_t depth, float* c,
                   std::size_t c_stride, std::size_t rows, std::size_t columns) {
  // A partial tile computes its last row several times and stores it once.
  std::array<const float*, kTileRows> factors;
  std::array<Vectors, kTileRows> sums;
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kTileRows; ++r) {
    const std::size_t row = std::min(r, rows - 1);
    factors[r] = a.at(row, 0);
    sums[r] = load(c + row * c_stride, columns);
  }
  for (std::size_t k = 0; k < depth; ++k) {
    const Float4 low = panel[k].low;
    const Float4 high = panel[k].high;
    // Unrolled at every level of optimisation, or the sums live in memory.
#pragma GCC unroll 4
    for (std::size_t r = 0; r < kTileRows; ++r) {
      const float factor = factors[r][k * a.column_stride];
      sums[r].low += factor * low;
      sums[r].high += factor * high;
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < kTileRows; ++r) {
    if (r < rows) store(sums[r], c + r * c_stride, columns);
  }
}

// c[rows, columns] += a[rows, depth] · b[depth, columns], c row-major and dense.
void multiply_add(const View& a, const View& b, float* c, std::size_t rows, std::size_t columns,
                  std::size_t depth) {
  Panel panel;
  for (std::size_t k = 0; k < depth; k += kPanelDepth) {
    const std::size_t panel_depth = std::min(kPanelDepth, depth - k);
    for (std::size_t j = 0; j < columns; j += kTileColumns) {
      const std::size_t panel_columns = std::min(kTileColumns, columns - j);
      pack(panel, {b.at(k, j), b.row_stride, b.column_stride}, panel_depth, panel_columns);
      for (std::size_t i = 0; i < rows; i += kTileRows) {
        multiply_tile({a.at(i, k), a.row_stride, a.column_stride}, panel, panel_depth,
                      c + i * columns + j, columns, std::min(kTileRows, rows - i), panel_columns);
      }
    }
  }
}

}  // namespace

void normalise(const Normalise& args) {
  constexpr float kScale = 1.0F / (255.0F * kPixelDeviation);
  constexpr float kOffset = kPixelMean / kPixelDeviation;
  for (std::size_t i = 0; i < args.count; ++i) {
    args.y[i] = static_cast<float>(args.pixels[i]) * kScale - kOffset;
  }
}

void linear_forward(const LinearForward& args) {
  const auto [x, weights, bias, y, batch, inputs, outputs, relu] = args;
  for (std::size_t b = 0; b < batch; ++b) std::copy_n(bias, outputs, y + b * outputs);
  multiply_add({x, inputs, 1}, {weights, outputs, 1}, y, batch, outputs, inputs);
  if (relu) {
    for (std::size_t i = 0; i < batch * outputs; ++i) y[i] = y[i] > 0.0F ? y[i] : 0.0F;
  }
}

void softmax_cross_entropy(const SoftmaxCrossEntropy& args) {
  const auto batch_size = static_cast<float>(args.batch);
  double loss = 0.0;
  std::uint64_t correct = 0;
  for (std::size_t b = 0; b < args.batch; ++b) {
    const float* z = args.logits + b * args.classes;
    const std::size_t label = args.labels[b];
    const float* const largest = std::max_element(z, z + args.classes);
    // Shifted by the largest logit, no exponential overflows and their sum is at least 1.
    const float shift = *largest;
    float sum = 0.0F;
    for (std::size_t c = 0; c < args.classes; ++c) sum += std::exp(z[c] - shift);
    loss += static_cast<double>(std::log(sum) - (z[label] - shift));
    correct += static_cast<std::size_t>(largest - z) == label ? 1U : 0U;
    if (args.dlogits == nullptr) continue;
    float* const dz = args.dlogits + b * args.classes;
    for (std::size_t c = 0; c < args.classes; ++c) {
      const float target = c == label ? 1.0F : 0.0F;
      dz[c] = (std::exp(z[c] - shift) / sum - target) / batch_size * args.scale;
    }
  }
  args.metrics->loss += loss;
  args.metrics->correct += correct;
  args.metrics->samples += args.batch;
}

void linear_backward(const LinearBackward& args) {
  const auto [x, weights, dy, dweights, dbias, dx, batch, inputs, outputs, relu, adds] = args;
  if (dweights != nullptr) {
    if (!adds) std::fill_n(dweights, inputs * outputs, 0.0F);
    multiply_add({x, 1, inputs}, {dy, outputs, 1}, dweights, inputs, outputs, batch);

    if (!adds) std::fill_n(dbias, outputs, 0.0F);
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t o = 0; o < outputs; ++o) dbias[o] += dy[b * outputs + o];
    }
  }

  if (dx == nullptr) return;
  std::fill_n(dx, batch * inputs, 0.0F);
  multiply_add({dy, outputs, 1}, {weights, 1, outputs}, dx, batch, inputs, outputs);
  if (relu) {
    for (std::size_t i = 0; i < batch * inputs; ++i) dx[i] = x[i] > 0.0F ? dx[i] : 0.0F;
  }
}

void sgd_momentum(const SgdMomentum& args) {
  for (std::size_t i = 0; i < args.count; ++i) {
    args.velocity[i] = args.momentum * args.velocity[i] + args.gradient[i];
    args.parameters[i] -= args.learning_rate * args.velocity[i];
  }
}

}  // namespace mnist::host
