#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// Whether all bytes of an element mean something, so that equal lists are equal bytes.
template <class T>
inline constexpr bool kIsDense = std::has_unique_object_representations_v<T>;
template <>
inline constexpr bool kIsDense<float> = true;

// Lists that kernels read and operations are called with, page tables and row numbers, in the
// device's memory. Each has its place as soon as it is put, the same list the same place as long as
// a step lasts, and is there once bring() was called. The lists of a step are put from the first
// place on: of steps that are alike each list has the place that it had, and only what became
// different travels, in one copy. One thread.
class Tables {
 public:
  explicit Tables(Device& device) : device_(device) {}
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // What was put before is not needed any more by what is launched from here on.
  void begin_step();
  template <class T>
  const T* put(std::span<const T> list) {
    static_assert(kIsDense<T>);
    return reinterpret_cast<const T*>(put_bytes(std::as_bytes(list)));
  }
  Result<void> bring();
  size_t n_lists() const { return lists_.size(); }

 private:
  static constexpr size_t kPieceBytes = 256u << 10;  // at least
  static constexpr size_t kAlignment = 16;           // of lists, and what is compared at once

  // Lists lie in pieces, which never move.
  struct Piece {
    std::byte* on_device = nullptr;
    std::vector<std::byte> wanted, there;  // as it is to be, and as it is on the device
    size_t n_used = 0, n_brought = 0;
  };
  struct List {
    size_t piece, first, n_bytes;
  };
  const std::byte* put_bytes(std::span<const std::byte> bytes);
  size_t piece_with_room(size_t n_bytes);
  Result<void> bring(Piece& piece);

  Device& device_;
  std::vector<Piece> pieces_;
  std::vector<List> lists_;
};

}  // namespace kvik::cuda
