#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/forwarding_backend.h"
#include "model/adapter.h"

namespace kvik {

// A backend that hands every operation on to another one, and adds to each product with a matrix of
// the model what the adapters of its rows change there. So every projection has its adapters, and
// the blocks of a decoder know nothing of them. Rows of one adapter are computed together; what is
// added to a row does not depend on the others (Backend::add_low_rank).
//
// The rows of products and of embed() are those of the step, in order, as begin_step(), keep() and
// look_at() leave them; a product of other rows is a bug. Nothing is asked of rows while no row has
// an adapter. One thread.
class AdaptedBackend final : public ForwardingBackend {
 public:
  explicit AdaptedBackend(Backend& backend) : ForwardingBackend(backend) {}

  // A step without rows; then those of one sequence behind the other. Null: no adapter. Borrowed
  // for the step.
  void begin_step() override;
  void add_rows(const Adapter* adapter, uint32_t n_rows);
  // Only these rows are left, side by side.
  void keep(std::span<const uint32_t> rows);
  // Products are of rows [first, first + n) of those until the next call.
  void look_at(uint32_t first, uint32_t n);

  void embed(const PackedMatrix& table, std::span<const TokenId> tokens, Rows out) override;
  void matmul(Rows x, const PackedMatrix& w, Rows out) override;
  void matmul_add(Rows x, const PackedMatrix& w, Rows out) override;
  void grouped_matmul(Rows x, const PackedMatrix& w, const GroupedRows& groups, Rows out) override;
  void head_matmul(const HeadRows& x, const PackedMatrix& w, const HeadRows& out) override;
  // What is added to experts' products is listed here: where there is any, so are the experts.
  bool route(const RouteShape& shape, Rows scores) override {
    return !has_adapters_ && next_.route(shape, scores);
  }

 private:
  // The rows that products are of, by adapter.
  struct Group {
    const Adapter* adapter;
    std::vector<uint32_t> rows;
  };

  void add(Rows x, const PackedMatrix& w, Rows out);
  // What `group` changes of a product with w, in terms_.
  void list_terms(const Group& group, const PackedMatrix& w);
  // Scales what `group` scales of a product with w.
  void scale_product(const Group& group, const PackedMatrix& w, Rows product);
  bool scales_some(const PackedMatrix& w);
  void group_rows();
  std::span<const Group> groups() {
    if (!is_grouped_) group_rows();
    return std::span(groups_).first(n_groups_);
  }

  std::vector<const Adapter*> owners_;  // of each row of the step
  bool has_adapters_ = false;           // some row has one
  uint32_t first_ = 0, n_rows_ = 0;     // of owners_, what products are of

  bool is_grouped_ = false;
  uint32_t n_groups_ = 0;
  std::vector<Group> groups_;  // of those that there were before, lists are kept for their memory
  std::vector<LowRankTerm> terms_;
  std::vector<uint32_t> x_rows_, out_rows_;  // of a grouped product's terms
  Buffer lookups_;
  Buffer products_;  // of a projection back into the residual stream, where some rows are scaled
};

}  // namespace kvik
