#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/forwarding_backend.h"
#include "model/adapter.h"

namespace kvik {

// A backend that forwards all operations to another one and adds to each product with a matrix of
// the model the changes of its rows' adapters. All projections are thus adapted without the
// decoder's blocks knowing about adapters. Rows of one adapter are computed together; the change of
// a row does not depend on other rows (Backend::add_low_rank()).
//
// The rows of products with matrices that adapters may change, and of embed(), must be the rows of
// the step in order, as set by begin_step(), add_rows(), keep() and select_rows(); a product of
// other rows is a bug. This is checked only if an adapter changes the matrix. One thread.
class AdaptedBackend final : public ForwardingBackend {
 public:
  explicit AdaptedBackend(Backend& backend) : ForwardingBackend(backend) {}

  // begin_step() starts a step without rows; add_rows() then appends the rows of one sequence.
  // Null: no adapter. Adapters are borrowed for the step. Products have all rows until keep() or
  // select_rows().
  void begin_step() override;
  void add_rows(const Adapter* adapter, uint32_t n_rows);
  // Drops all rows but these, which become adjacent. `rows` must be ascending.
  void keep(std::span<const uint32_t> rows);
  // Sets the rows of the following products to [first, first + n).
  void select_rows(uint32_t first, uint32_t n);

  void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) override;
  void matmul(Rows x, const PackedMatrix& w, Rows out) override;
  void matmul_add(Rows x, const PackedMatrix& w, Rows out) override;
  void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups, Rows out) override;
  void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) override;
  // With adapters, experts are chosen on the host, because their changes need the lists of rows.
  bool route(const RouteShape& shape, Rows scores) override {
    return !has_adapters_ && next_.route(shape, scores);
  }

 private:
  // Rows of the current products with the same adapter.
  struct Group {
    const Adapter* adapter;
    std::vector<uint32_t> rows;
  };

  void add(Rows x, const PackedMatrix& w, Rows out);
  // Appends to terms_ the changes that the adapter of `group` makes to a product with w.
  void list_terms(const Group& group, const PackedMatrix& w);
  // Applies the scales of `group` to a product with w.
  void scale_product(const Group& group, const PackedMatrix& w, Rows product);
  bool scales_some(const PackedMatrix& w);
  void group_rows();
  std::span<const Group> groups() {
    if (!is_grouped_) group_rows();
    return std::span(groups_).first(n_groups_);
  }

  std::vector<const Adapter*> row_adapters_;  // adapter of each row of the step
  bool has_adapters_ = false;                 // at least one row has an adapter
  uint32_t first_ = 0, n_rows_ = 0;           // entries of row_adapters_ for the products

  bool is_grouped_ = false;
  uint32_t n_groups_ = 0;
  // Only the first n_groups_ are in use; the others are kept so that their lists stay allocated.
  std::vector<Group> groups_;
  std::vector<LowRankTerm> terms_;
  std::vector<uint32_t> x_rows_, out_rows_;  // row lists of the terms of a grouped product
  Buffer lookups_;
  // Product of a projection that is added to the residual stream, if some rows are scaled.
  Buffer products_;
};

}  // namespace kvik
