# `cmake --install` in five components: program (the program, its man pages, completions, notices), service (systemd units and their configuration),
# monitoring (Grafana dashboard, Prometheus rules), library (libkvik.so.0) and development (its headers, kvik.pc, the files of find_package(kvik)).
# The target kvik_documents writes man pages and completions.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
option(KVIK_PORTABLE "Install the portable program (cmake/portable.cmake)" OFF)

set(documents ${PROJECT_BINARY_DIR}/documents)
set(make ${PROJECT_SOURCE_DIR}/tools/make)
add_custom_command(OUTPUT ${documents}/written
  COMMAND /usr/bin/python3 -B ${make}/man_pages.py $<TARGET_FILE:kvik> ${documents}/man
  COMMAND /usr/bin/python3 -B ${make}/completions.py $<TARGET_FILE:kvik> ${documents}/completions
  COMMAND /usr/bin/python3 -B ${make}/notices.py ${documents}/licenses
  COMMAND ${CMAKE_COMMAND} -E touch ${documents}/written
  DEPENDS kvik ${make}/man_pages.py ${make}/completions.py ${make}/command_table.py ${make}/cli_reference.py ${make}/notices.py
  VERBATIM COMMENT "Writing man pages, completions and licence notices")
add_custom_target(kvik_documents DEPENDS ${documents}/written)

if(KVIK_PORTABLE AND NOT TARGET kvik_portable)
  message(FATAL_ERROR "KVIK_PORTABLE is ON: expected the static libraries of tools/packages.sh")
elseif(KVIK_PORTABLE)
  install(PROGRAMS $<TARGET_FILE:kvik_portable> DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
else()
  install(TARGETS kvik DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
endif()
install(DIRECTORY ${documents}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program OPTIONAL)
install(FILES ${documents}/completions/kvik DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program OPTIONAL)
install(FILES ${documents}/completions/_kvik DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT program OPTIONAL)
install(FILES ${documents}/completions/kvik.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program OPTIONAL)
install(FILES LICENSE NOTICE THIRD-PARTY.md README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kvik COMPONENT program)
install(FILES THIRD-PARTY.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kvik RENAME copyright COMPONENT service)  # Debian's name
install(DIRECTORY ${documents}/licenses DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kvik COMPONENT program OPTIONAL)
install(FILES deploy/grafana/kvik.json deploy/prometheus/alerts.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/kvik COMPONENT monitoring)
install(FILES deploy/systemd/kvik.service deploy/systemd/kvik.socket DESTINATION lib/systemd/system COMPONENT service)
install(FILES deploy/kvik.toml DESTINATION /etc/kvik COMPONENT service)

# The library and its headers. Not CMAKE_INSTALL_LIBDIR: packages for all distributions hold the same files.
set(library_target kvik_shared)
if(KVIK_PORTABLE)
  set(library_target kvik_portable_shared)
endif()
get_target_property(kvik_library_version kvik_shared VERSION)
install(PROGRAMS $<TARGET_FILE:${library_target}> DESTINATION lib RENAME libkvik.so.${kvik_library_version} COMPONENT library)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/links)
foreach(link "libkvik.so.${kvik_abi} library" "libkvik.so development")
  string(REPLACE " " ";" link ${link})
  list(POP_BACK link component)
  file(CREATE_LINK libkvik.so.${kvik_library_version} ${PROJECT_BINARY_DIR}/links/${link} SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/links/${link} DESTINATION lib COMPONENT ${component})
endforeach()
install(FILES include/kvik/kvik.h include/kvik/kvik.hpp DESTINATION include/kvik COMPONENT development)
configure_file(cmake/kvik.pc.in ${PROJECT_BINARY_DIR}/kvik.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/kvik.pc DESTINATION lib/pkgconfig COMPONENT development)

# find_package(kvik) exports the program, kvik::kvik, and the library, kvik::libkvik.
set(kvik_program ${CMAKE_INSTALL_BINDIR}/kvik)
set(kvik_headers include)
set(kvik_library lib/libkvik.so.${kvik_library_version})
set(config_folder lib/cmake/kvik)
configure_package_config_file(cmake/kvik-config.cmake.in ${PROJECT_BINARY_DIR}/kvik-config.cmake INSTALL_DESTINATION ${config_folder}
  PATH_VARS kvik_program kvik_headers kvik_library)
# Before 1.0, a minor version may change flags. The program does not depend on the architecture for which the other project is compiled.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kvik-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/kvik-config.cmake ${PROJECT_BINARY_DIR}/kvik-config-version.cmake DESTINATION ${config_folder} COMPONENT development)

# The packages (tools/package.sh): a .deb of all components, and a tarball of those that need no fixed place.
set(CPACK_PACKAGE_NAME kvik)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LLM inference engine and server with a shared, exact KV cache")
set(CPACK_PACKAGE_CONTACT "Kvik maintainers <kvik@localhost>")
set(CPACK_PACKAGE_FILE_NAME kvik-${PROJECT_VERSION}-linux-x86_64)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES OFF)  # the portable program is linked without symbols
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_DEBIAN_FILE_NAME kvik_${PROJECT_VERSION}_amd64.deb)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= ${kvik_glibc})")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4t64 | libcurl4 | libcurl3-gnutls")  # loaded by downloads
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Runs large language models on this machine and serves them by the APIs of OpenAI and Anthropic. Prompts that
share a prefix are computed once, also across users and restarts.")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)  # Debian 11 reads no zstd
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
file(WRITE ${PROJECT_BINARY_DIR}/debian/conffiles "/etc/kvik/kvik.toml\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/deploy/debian/postinst ${PROJECT_SOURCE_DIR}/deploy/debian/prerm
  ${PROJECT_SOURCE_DIR}/deploy/debian/postrm ${PROJECT_BINARY_DIR}/debian/conffiles)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_BINARY_DIR}/package_options.cmake)
file(WRITE ${CPACK_PROJECT_CONFIG_FILE} [[
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENTS_ALL program service monitoring library development)
else()
  set(CPACK_COMPONENTS_ALL program monitoring library development)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
endif()
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL OFF)
]])
include(CPack)
