# Debian 12 packages; `./run` and `./test` install them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ICU 72 REQUIRED COMPONENTS uc)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(CLI11 REQUIRED)
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)  # Debian's package brings no CMake file
find_library(XXHASH_LIBRARY xxhash REQUIRED)
add_library(xxHash::xxhash INTERFACE IMPORTED)
target_include_directories(xxHash::xxhash INTERFACE ${XXHASH_INCLUDE})
target_link_libraries(xxHash::xxhash INTERFACE ${XXHASH_LIBRARY})
find_package(OpenSSL 3 REQUIRED)
