#include "backend/cuda/device/tables.h"

#include <algorithm>
#include <cstring>

namespace kvik::cuda {

Tables::~Tables() {
  for (const Piece& piece : pieces_) device_.free(piece.on_device);
}

void Tables::begin_step() {
  lists_.clear();
  for (Piece& piece : pieces_) piece.n_used = piece.n_uploaded = 0;
}

const std::byte* Tables::put_bytes(std::span<const std::byte> bytes) {
  if (bytes.empty()) return nullptr;
  for (const List& list : lists_) {
    if (list.n_bytes != bytes.size()) continue;
    const Piece& piece = pieces_[list.piece];
    if (std::memcmp(bytes.data(), piece.wanted.data() + list.first, bytes.size()) == 0) {
      return piece.on_device + list.first;
    }
  }
  const size_t p = piece_with_room(bytes.size());
  Piece& piece = pieces_[p];
  const size_t first = piece.n_used;
  std::ranges::copy(bytes, piece.wanted.begin() + first);
  piece.n_used = (first + bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  lists_.push_back({p, first, bytes.size()});
  return piece.on_device + first;
}

size_t Tables::piece_with_room(size_t n_bytes) {
  for (size_t p = 0; p < pieces_.size(); ++p) {
    if (n_bytes <= pieces_[p].wanted.size() - pieces_[p].n_used) return p;
  }
  const size_t n_units = (n_bytes + kPieceBytes - 1) / kPieceBytes;
  Result<std::byte*> on_device = device_.allocate(n_units * kPieceBytes);
  if (!on_device) exit_after_device_error(on_device.error());
  pieces_.push_back({.on_device = *on_device,
                     .wanted = std::vector<std::byte>(n_units * kPieceBytes),
                     .there = std::vector<std::byte>(n_units * kPieceBytes)});
  return pieces_.size() - 1;
}

Result<void> Tables::bring() {
  for (Piece& piece : pieces_) TRY(bring(piece));
  return {};
}

// Copies all bytes from the first to the last line that differs from the device's.
Result<void> Tables::bring(Piece& piece) {
  const auto differs = [&](size_t line) {
    return std::memcmp(&piece.wanted[line], &piece.there[line], kAlignment) != 0;
  };
  size_t first = piece.n_uploaded, end = piece.n_used;
  piece.n_uploaded = piece.n_used;
  while (first < end && !differs(first)) first += kAlignment;
  while (end > first && !differs(end - kAlignment)) end -= kAlignment;
  const auto changed = std::span<const std::byte>(piece.wanted).subspan(first, end - first);
  std::ranges::copy(changed, piece.there.begin() + static_cast<ptrdiff_t>(first));
  return device_.copy_in(piece.on_device + first, changed);
}

}  // namespace kvik::cuda
