# kvik_embed(TARGET FILE): adds a library whose symbols TARGET_begin and TARGET_end delimit the file's bytes.
function(kvik_embed target file)
  set(assembly ${PROJECT_BINARY_DIR}/${target}.S)
  file(WRITE ${assembly}.tmp ".section .rodata\n.balign 64\n.globl ${target}_begin\n.globl ${target}_end\n"
    "${target}_begin:\n.incbin \"${file}\"\n${target}_end:\n.section .note.GNU-stack,\"\",@progbits\n")
  configure_file(${assembly}.tmp ${assembly} COPYONLY)
  set_source_files_properties(${assembly} PROPERTIES OBJECT_DEPENDS ${file})
  add_library(${target} OBJECT ${assembly})
endfunction()
