//! What becomes of an operation when something goes wrong in its block.
