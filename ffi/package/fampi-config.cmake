# fampi::fampi is the shared library, fampi::static the one that goes into the program.
include(CMakeFindDependencyMacro)
find_dependency(MPI)
get_filename_component(fampi_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(TARGET MPI::MPI_C)
  set(fampi_mpi MPI::MPI_C)
else()
  set(fampi_mpi MPI::MPI_CXX)
endif()
if(NOT TARGET fampi::fampi)
  add_library(fampi::fampi SHARED IMPORTED)
  set_target_properties(fampi::fampi PROPERTIES
    IMPORTED_LOCATION "${fampi_prefix}/lib/libfampi.so"
    IMPORTED_NO_SONAME TRUE
    INTERFACE_INCLUDE_DIRECTORIES "${fampi_prefix}/include"
    INTERFACE_LINK_LIBRARIES "${fampi_mpi}")
  add_library(fampi::static STATIC IMPORTED)
  set_target_properties(fampi::static PROPERTIES
    IMPORTED_LOCATION "${fampi_prefix}/lib/libfampi.a"
    INTERFACE_INCLUDE_DIRECTORIES "${fampi_prefix}/include"
    INTERFACE_LINK_LIBRARIES "${fampi_mpi};pthread;dl;m;rt;gcc_s")
endif()
