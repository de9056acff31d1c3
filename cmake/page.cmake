# kvik_page(TARGET): embeds the page into TARGET, uncompressed and compressed with gzip. It is the page built by tools/build_page.sh or, if
# there is none, a plain page with build instructions.
function(kvik_page target)
  set(folder ${PROJECT_SOURCE_DIR}/web/dist)
  if(NOT EXISTS ${folder}/index.html)
    set(folder ${PROJECT_SOURCE_DIR}/web/plain)
    message(STATUS "No page in web/dist: tools/build_page.sh makes it")
  endif()
  # The next build embeds a page that was built after configuration.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/web ${folder}/index.html ${folder}/policy.txt)
  set(gzip ${PROJECT_BINARY_DIR}/page.html.gz)
  file(ARCHIVE_CREATE OUTPUT ${gzip} PATHS ${folder}/index.html FORMAT raw COMPRESSION GZip
    COMPRESSION_LEVEL 9)
  kvik_embed(kvik_page ${folder}/index.html)
  kvik_embed(kvik_page_gzip ${gzip})
  kvik_embed(kvik_page_policy ${folder}/policy.txt)
  target_link_libraries(${target} PRIVATE kvik_page kvik_page_gzip kvik_page_policy)
endfunction()

# kvik_explain_page(TARGET): embeds the page for reports of `kvik explain` into TARGET.
function(kvik_explain_page target)
  set(page ${PROJECT_SOURCE_DIR}/web/dist/explain.html)
  if(NOT EXISTS ${page})
    set(page ${PROJECT_SOURCE_DIR}/web/plain/explain.html)
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  kvik_embed(kvik_explain_page ${page})
  target_link_libraries(${target} PRIVATE kvik_explain_page)
endfunction()
