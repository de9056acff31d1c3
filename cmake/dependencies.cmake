# Debian 12 packages; `./run` and `./test` install them.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(ICU 72 REQUIRED COMPONENTS uc)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(CLI11 REQUIRED)
find_package(OpenSSL 3 REQUIRED)
