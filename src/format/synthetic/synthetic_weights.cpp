#include "format/synthetic/synthetic_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/check.h"
#include "tensor/blocks.h"

namespace kvik {
namespace {

constexpr uint64_t kPoolElements = uint64_t{1} << 20;
constexpr uint64_t kRunElements = 128;  // copied together; a block if that is more
constexpr uint64_t kStepElements = 32;  // positions in the pool are multiples of this: whole blocks
constexpr uint64_t kSmallElements = uint64_t{1} << 16;  // smaller tensors do not use the pool
constexpr uint64_t kPoolSeed = 0x6b76696bULL;

// Returns number `counter` of sequence `seed`: SplitMix64 (Steele, Lea and Flood 2014), which
// allows random access.
uint64_t random_at(uint64_t seed, uint64_t counter) {
  uint64_t z = seed + (counter + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Returns a number in (0, 1].
double uniform_at(uint64_t seed, uint64_t counter) {
  return static_cast<double>((random_at(seed, counter) >> 11) + 1) * 0x1p-53;
}

// Fills with independent values of mean 0 and standard deviation 1 (Box and Muller 1958), two per
// pair of numbers.
void fill_normal(uint64_t seed, std::span<float> out) {
  for (size_t i = 0; i < out.size(); i += 2) {
    const double radius = std::sqrt(-2.0 * std::log(uniform_at(seed, i)));
    const double angle = 2.0 * std::numbers::pi * uniform_at(seed, i + 1);
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < out.size()) out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void make_value_by_value(const SyntheticTensor& tensor, uint64_t seed, uint64_t first_row,
                         std::span<std::byte> out) {
  const TensorInfo& info = tensor.info;
  std::vector<float> values(info.n_elements());
  fill_normal(seed, values);
  for (float& value : values) value = tensor.mean + tensor.deviation * value;
  std::vector<std::byte> all(info.n_bytes);
  const uint64_t n_cols = info.shape.back();
  const uint64_t row_bytes = info.n_bytes / (info.n_elements() / n_cols);
  for (uint64_t row = 0; row < info.n_elements() / n_cols; ++row) {
    quantize_row(info.type, std::span(values).subspan(row * n_cols, n_cols),
                 all.data() + row * row_bytes);
  }
  std::memcpy(out.data(), all.data() + first_row * row_bytes, out.size());
}

size_t bytes_of_elements(ElementType type, uint64_t n_elements) {
  const ElementTraits& t = traits(type);
  return n_elements / t.block_elements * t.block_bytes;
}

// Makes the numbers of a row different from each other, which are consecutive ones.
void make_numbers(const SyntheticTensor& tensor, uint64_t seed, uint64_t first_row,
                  std::span<std::byte> out) {
  const uint64_t n_cols = tensor.info.shape.back();
  for (size_t i = 0; i * sizeof(int32_t) < out.size(); ++i) {
    const uint64_t first = random_at(seed, first_row + i / n_cols);
    const auto number = static_cast<int32_t>((first + i % n_cols) % tensor.n_numbers);
    std::memcpy(out.data() + i * sizeof(int32_t), &number, sizeof(number));
  }
}

}  // namespace

uint64_t SyntheticWeights::seed_of(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return random_at(hash, 0);  // similar names have similar FNV hashes
}

void SyntheticWeights::make(const SyntheticTensor& tensor, uint64_t seed, uint64_t first_row,
                            std::span<std::byte> out) {
  if (tensor.n_numbers > 0) {
    make_numbers(tensor, seed, first_row, out);
  } else if (tensor.info.n_elements() < kSmallElements) {
    make_value_by_value(tensor, seed, first_row, out);
  } else {
    make_from_pool(tensor, seed, first_row, out);
  }
}

void SyntheticWeights::make_from_pool(const SyntheticTensor& tensor, uint64_t seed,
                                      uint64_t first_row, std::span<std::byte> out) {
  const ElementType type = tensor.info.type;
  const std::span<const std::byte> pool = pool_for(tensor).bytes;
  const uint64_t n_cols = tensor.info.shape.back();
  const uint64_t run = std::max<uint64_t>(kRunElements, traits(type).block_elements);
  const uint64_t step = std::max<uint64_t>(kStepElements, traits(type).block_elements);
  const uint64_t n_places = (kPoolElements - run) / step + 1;
  const uint64_t n_runs = (n_cols + run - 1) / run;
  const size_t run_bytes = bytes_of_elements(type, run);
  const size_t last_bytes = bytes_of_elements(type, n_cols - (n_runs - 1) * run);
  const size_t step_bytes = bytes_of_elements(type, step);
  const size_t header_bytes = traits(type).row_header_bytes;
  const uint64_t n_rows = out.size() / (header_bytes + (n_runs - 1) * run_bytes + last_bytes);
  std::byte* to = out.data();
  for (uint64_t row = first_row; row < first_row + n_rows; ++row) {
    std::memcpy(to, pool.data(), header_bytes);
    to += header_bytes;
    for (uint64_t i = 0; i < n_runs; ++i) {
      const uint64_t place = random_at(seed, row * n_runs + i) % n_places;
      const size_t n_bytes = i + 1 < n_runs ? run_bytes : last_bytes;
      std::memcpy(to, pool.data() + header_bytes + place * step_bytes, n_bytes);
      to += n_bytes;
    }
  }
}

const SyntheticWeights::Pool& SyntheticWeights::pool_for(const SyntheticTensor& tensor) {
  CHECK(tensor.mean == 0);
  for (const Pool& pool : pools_) {
    if (pool.type == tensor.info.type && pool.deviation == tensor.deviation) return pool;
  }
  if (normal_.empty()) {
    normal_.resize(kPoolElements);
    fill_normal(kPoolSeed, normal_);
  }
  std::vector<float> scaled(kPoolElements);
  std::transform(normal_.begin(), normal_.end(), scaled.begin(),
                 [&](float value) { return value * tensor.deviation; });
  Pool pool{tensor.info.type, tensor.deviation, {}};
  pool.bytes.resize(traits(tensor.info.type).row_header_bytes +
                    bytes_of_elements(tensor.info.type, kPoolElements));
  quantize_row(tensor.info.type, scaled, pool.bytes.data());
  pools_.push_back(std::move(pool));
  return pools_.back();
}

}  // namespace kvik
