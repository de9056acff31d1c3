#pragma once

#include <string_view>

namespace kvik {

// First bytes of the text files that replace large files in a repository cloned without Git LFS.
inline constexpr std::string_view kLfsPointer = "version https://git-lfs";
inline constexpr std::string_view kIsLfsPointer =
    "a Git LFS pointer, expected the file that it stands for: `git lfs pull` downloads it";

}  // namespace kvik
