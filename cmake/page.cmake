# kvik_page(TARGET): puts the page into TARGET, as it is and as gzip makes it: the one that
# tools/build_page.sh built, or a plain one that says how to.
function(kvik_page target)
  set(folder ${PROJECT_SOURCE_DIR}/web/dist)
  if(NOT EXISTS ${folder}/index.html)
    set(folder ${PROJECT_SOURCE_DIR}/web/plain)
    message(STATUS "No page in web/dist: tools/build_page.sh makes it")
  endif()
  # A page that was built since is seen by the next build.
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

# kvik_explain_page(TARGET): puts the page of `kvik explain`'s reports into TARGET.
function(kvik_explain_page target)
  set(page ${PROJECT_SOURCE_DIR}/web/dist/explain.html)
  if(NOT EXISTS ${page})
    set(page ${PROJECT_SOURCE_DIR}/web/plain/explain.html)
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
  kvik_embed(kvik_explain_page ${page})
  target_link_libraries(${target} PRIVATE kvik_explain_page)
endfunction()
