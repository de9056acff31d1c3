#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/layout/query_row.h"

namespace kvik {

// A few consecutive query rows of one run, in ascending order, that are computed together.
struct RowSlice {
  const std::byte* const* pages;
  std::span<const QueryRow> rows;
  // If false, the run has so many rows that sharing pages with other runs saves nothing.
  bool is_whole_run;
};

// Rows of one or several slices that attend to the same pages in one split.
struct SplitUnit {
  uint32_t split;
  const std::byte* const* pages;  // page table of the slice that attends furthest
  // Number of the split's pages up to the last one that the unit attends to, including earlier
  // pages of the split that it does not attend to.
  uint32_t n_pages;
  uint32_t first_row;  // in AttentionPlan::rows()
  uint32_t n_rows;
};

// Position of a slice's rows among the rows of a unit.
struct UnitPart {
  uint32_t unit;
  uint32_t first_row;
};

// Decides which rows attend to pages together. A split is a range of kSplitTokens positions, whole
// pages, that is computed alone; a run has the rows of one sequence (KvRun). In each split it
// groups slices whose page tables hold the same addresses for all pages that they attend to, so
// that sequences that lease the same pages read them once. Grouping does not change bits, because
// the arithmetic of a row does not depend on other rows.
class AttentionPlan {
 public:
  // Groups the slices, split by split. A unit of several slices has at most n_unit_rows rows. Each
  // slice must attend to at least one split. The slices must stay valid as long as the plan is
  // used. window: number of positions of sliding-window attention; 0: all.
  void group(std::span<const RowSlice> slices, uint32_t window, uint32_t n_unit_rows);

  // Returns the units in ascending order of their splits.
  std::span<const SplitUnit> units() const { return units_; }
  std::span<const QueryRow> rows() const { return rows_; }
  SplitRange splits() const { return splits_; }
  // Returns where a slice's rows are in a split that it attends to.
  UnitPart part(size_t slice, uint32_t split) const { return parts_[part_index(slice, split)]; }
  // Returns whether any unit has more than one slice.
  bool shares() const { return shares_; }

 private:
  // A slice and the pages [begin, end) of one split that it attends to.
  struct Member {
    const std::byte* first_page;
    uint32_t begin, end;
    uint32_t slice;
    uint32_t unit;
  };
  size_t part_index(size_t slice, uint32_t split) const {
    return slice * (splits_.end - splits_.begin) + split - splits_.begin;
  }
  void list_members(uint32_t split);
  void group_members(uint32_t split);
  bool fits(const SplitUnit& unit, const Member& member) const;
  void place_rows(uint32_t split, size_t first_unit);

  std::span<const RowSlice> slices_;
  SplitRange splits_{0, 0};
  uint32_t window_ = 0;
  uint32_t n_unit_rows_ = 0;
  bool shares_ = false;
  std::vector<SplitRange> seen_;  // splits that each slice attends to
  std::vector<Member> members_;   // members of the current split
  std::vector<SplitUnit> units_;
  std::vector<QueryRow> rows_;
  std::vector<UnitPart> parts_;  // [slice][split]
};

// Returns the splits that rows in ascending order attend to; empty if each row attends only to its
// open page.
SplitRange visible_splits(std::span<const QueryRow> rows, uint32_t window);

}  // namespace kvik
