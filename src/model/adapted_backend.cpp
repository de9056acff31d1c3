#include "model/adapted_backend.h"

#include <algorithm>

#include "base/check.h"

namespace kvik {

void AdaptedBackend::begin_step() {
  row_adapters_.clear();
  has_adapters_ = is_grouped_ = false;
  first_ = n_rows_ = 0;
  next_.begin_step();
}

void AdaptedBackend::add_rows(const Adapter* adapter, uint32_t n_rows) {
  row_adapters_.insert(row_adapters_.end(), n_rows, adapter);
  has_adapters_ = has_adapters_ || adapter;
  n_rows_ += n_rows;
}

void AdaptedBackend::keep(std::span<const uint32_t> rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    // ascending order, so that no entry is overwritten before it is read
    CHECK(rows[i] >= i && rows[i] < row_adapters_.size());
    row_adapters_[i] = row_adapters_[rows[i]];
  }
  row_adapters_.resize(rows.size());
  select_rows(0, static_cast<uint32_t>(rows.size()));
}

void AdaptedBackend::select_rows(uint32_t first, uint32_t n) {
  CHECK(size_t{first} + n <= row_adapters_.size());
  first_ = first;
  n_rows_ = n;
  is_grouped_ = false;
}

void AdaptedBackend::group_rows() {
  n_groups_ = 0;
  for (uint32_t row = 0; row < n_rows_; ++row) {
    const Adapter* owner = row_adapters_[first_ + row];
    if (!owner) continue;
    const auto end = groups_.begin() + n_groups_;
    auto group = std::find_if(groups_.begin(), end,
                              [&](const Group& known) { return known.adapter == owner; });
    if (group == end) {
      if (n_groups_ == groups_.size()) groups_.emplace_back();
      group = groups_.begin() + n_groups_++;
      group->adapter = owner;
      group->rows.clear();
    }
    group->rows.push_back(row);
  }
  is_grouped_ = true;
}

void AdaptedBackend::list_terms(const Group& group, const PackedMatrix& w) {
  for (const Adapter::Part& part : group.adapter->at(w)) {
    terms_.push_back({.matrix = part.matrix.get(),
                      .x_rows = group.rows,
                      .out_rows = group.rows,
                      .x_column = 0,
                      .out_column = part.first_column});
  }
}

void AdaptedBackend::scale_product(const Group& group, const PackedMatrix& w, Rows product) {
  for (const Adapter::Part& part : group.adapter->at(w)) {
    if (!part.scales) continue;
    next_.scale_columns(product.columns(part.first_column, part.matrix->n_rows()), group.rows,
                        part.scales);
  }
}

bool AdaptedBackend::scales_some(const PackedMatrix& w) {
  return has_adapters_ && std::ranges::any_of(groups(), [&](const Group& group) {
           return group.adapter->scales(w);
         });
}

void AdaptedBackend::add(Rows x, const PackedMatrix& w, Rows out) {
  if (!has_adapters_) return;
  terms_.clear();
  for (const Group& group : groups()) list_terms(group, w);
  if (terms_.empty()) return;
  CHECK(x.n_rows == n_rows_);
  for (const Group& group : groups()) scale_product(group, w, out);
  next_.add_low_rank(x, terms_, out);
}

void AdaptedBackend::matmul(Rows x, const PackedMatrix& w, Rows out) {
  next_.matmul(x, w, out);
  add(x, w, out);
}

// The scales apply to the product alone, not to its sum with `out`, so the product is computed
// separately and then added. Rows whose adapter has no scales still get the same bits as without
// the detour: their changes are added to `out` afterwards.
void AdaptedBackend::matmul_add(Rows x, const PackedMatrix& w, Rows out) {
  if (!scales_some(w)) {
    next_.matmul_add(x, w, out);
    return add(x, w, out);
  }
  CHECK(x.n_rows == n_rows_);
  const size_t n_bytes = size_t{out.n_rows} * out.n_cols * sizeof(float);
  if (products_.size() < n_bytes) products_ = memory().allocate(n_bytes);
  const Rows product = {products_.floats(), out.n_rows, out.n_cols, out.n_cols};
  next_.matmul(x, w, product);
  terms_.clear();
  for (const Group& group : groups()) {
    if (!group.adapter->scales(w)) continue;
    scale_product(group, w, product);
    list_terms(group, w);
  }
  next_.add_low_rank(x, terms_, product);
  next_.add(out, product);
  terms_.clear();
  for (const Group& group : groups()) {
    if (!group.adapter->scales(w)) list_terms(group, w);
  }
  if (!terms_.empty()) next_.add_low_rank(x, terms_, out);
}

void AdaptedBackend::grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups,
                                    Rows out) {
  next_.grouped_matmul(x, w, groups, out);
  if (!has_adapters_) return;
  const std::span<const uint32_t> owners = groups.owners.empty() ? groups.rows : groups.owners;
  CHECK(owners.size() == out.n_rows);
  terms_.clear();
  x_rows_.clear();
  out_rows_.clear();
  // Each row has only one adapter, so the lists never exceed this capacity and spans into them stay
  // valid.
  x_rows_.reserve(out.n_rows);
  out_rows_.reserve(out.n_rows);
  for (const Group& of_adapter : this->groups()) {
    const auto parts = of_adapter.adapter->at(w);
    for (const RowGroup& group : groups.groups) {
      const auto [first, end] =
          std::ranges::equal_range(parts, group.matrix, {}, &Adapter::Part::index);
      if (first == end) continue;
      const size_t begin = out_rows_.size();
      for (uint32_t i = group.first; i < group.first + group.n_rows; ++i) {
        CHECK(owners[i] < n_rows_);
        if (row_adapters_[first_ + owners[i]] != of_adapter.adapter) continue;
        x_rows_.push_back(groups.rows.empty() ? i : groups.rows[i]);
        out_rows_.push_back(i);
      }
      for (auto part = first; part != end && begin < out_rows_.size(); ++part) {
        if (part->scales) {
          next_.scale_columns(out.columns(part->first_column, part->matrix->n_rows()),
                              std::span(out_rows_).subspan(begin), part->scales);
        }
        terms_.push_back({.matrix = part->matrix.get(),
                          .x_rows = std::span(x_rows_).subspan(begin),
                          .out_rows = std::span(out_rows_).subspan(begin),
                          .x_column = 0,
                          .out_column = part->first_column});
      }
    }
  }
  if (!terms_.empty()) next_.add_low_rank(x, terms_, out);
}

void AdaptedBackend::head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) {
  next_.head_matmul(x, w, out);
  if (!has_adapters_) return;
  CHECK(x.rows.n_rows == n_rows_);
  terms_.clear();
  for (const Group& group : groups()) {
    for (const Adapter::Part& part : group.adapter->at(w)) {
      CHECK(!part.scales);  // PairPlan accepts no DoRA scales for matrices of heads
      terms_.push_back({.matrix = part.matrix.get(),
                        .x_rows = group.rows,
                        .out_rows = group.rows,
                        .x_column = x.first + part.index * x.step,
                        .out_column = out.first + part.index * out.step});
    }
  }
  if (!terms_.empty()) next_.add_low_rank(x.rows, terms_, out.rows);
}

void AdaptedBackend::embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) {
  next_.embed(table, tokens, out);
  if (!has_adapters_) return;
  for (const Group& group : groups()) {
    const Adapter::Lookup* lookup = group.adapter->embedding();
    if (!lookup || lookup->table != &table) continue;
    CHECK(tokens.size() == n_rows_);
    const uint32_t rank = lookup->rank();
    const size_t row_bytes = rank * sizeof(float);
    const auto n = static_cast<uint32_t>(group.rows.size());
    if (lookups_.size() < n * row_bytes) lookups_ = memory().allocate(n * row_bytes);
    x_rows_.clear();
    for (uint32_t i = 0; i < n; ++i) {
      const auto row =
          std::span(lookup->tokens).subspan(size_t{tokens[group.rows[i]]} * rank, rank);
      memory().copy_in(lookups_.data() + i * row_bytes, std::as_bytes(row));
      x_rows_.push_back(i);
    }
    const LowRankTerm term{.matrix = lookup->up.get(), .x_rows = x_rows_, .out_rows = group.rows};
    next_.add_low_rank({lookups_.floats(), n, rank, rank}, {&term, 1}, out);
  }
}

}  // namespace kvik
