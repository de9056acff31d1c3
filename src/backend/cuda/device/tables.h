#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "backend/cuda/device/device.h"

namespace kvik::cuda {

// True if all bytes of an element are significant, so that equal lists have equal bytes.
template <class T>
inline constexpr bool kIsDense = std::has_unique_object_representations_v<T>;
template <>
inline constexpr bool kIsDense<float> = true;

// Lists that operations pass to kernels, such as page tables and row numbers, in device memory.
// put() assigns a list its address; within a step, equal lists get the same address. bring() copies
// the lists to the device. Every step places its lists from the beginning, so similar steps put
// each list at the same address, and only bytes that differ are transferred, in one copy for each
// piece. One thread.
class Tables {
 public:
  explicit Tables(Device& device) : device_(device) {}
  ~Tables();
  Tables(const Tables&) = delete;
  Tables& operator=(const Tables&) = delete;

  // Starts over: later launches must not read lists that were put before.
  void begin_step();
  // Returns the device address of the list; nullptr if it is empty.
  template <class T>
  const T* put(std::span<const T> list) {
    static_assert(kIsDense<T>);
    return reinterpret_cast<const T*>(put_bytes(std::as_bytes(list)));
  }
  // Copies lists that were put since the last call to the device, as far as they differ.
  Result<void> bring();
  size_t n_lists() const { return lists_.size(); }

 private:
  static constexpr size_t kPieceBytes = 256u << 10;  // minimum size of a piece
  static constexpr size_t kAlignment = 16;  // alignment of lists, and the unit of comparison

  // A part of the device memory for lists. Pieces never move.
  struct Piece {
    std::byte* on_device = nullptr;
    // New contents, and the contents on the device.
    std::vector<std::byte> wanted, there;
    size_t n_used = 0, n_uploaded = 0;
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
