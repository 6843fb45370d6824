# Installs the library with its public headers, a CMake package (find_package(engine), target
# engine::engine) and a pkg-config file. The programs are installed where they are defined.
include(CMakePackageConfigHelpers)

set(public_headers engine/engine.h gguf/result.h)
list(TRANSFORM public_headers PREPEND ${PROJECT_SOURCE_DIR}/)
target_sources(engine PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${public_headers})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/engine)
install(TARGETS engine EXPORT engine FILE_SET HEADERS)
install(EXPORT engine FILE engineTargets.cmake NAMESPACE engine:: DESTINATION ${package_dir})
configure_package_config_file(cmake/engineConfig.cmake.in engineConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(engineConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/engineConfig.cmake ${PROJECT_BINARY_DIR}/engineConfigVersion.cmake
  DESTINATION ${package_dir})

# The .pc file finds the prefix from its own place, so an installed tree can be moved.
set(pc_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_to_prefix /${pc_dir} /)
if(ENGINE_CUDA_BUILD)
  set(pc_cuda " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
configure_file(cmake/engine.pc.in engine.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/engine.pc DESTINATION ${pc_dir})
