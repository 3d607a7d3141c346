//! The module of Fortran that says what the header says: its constants, and for each function one
//! procedure as `mpi_f08` would have it.
//!
//! ```text
//! subroutine FAMPI_Isend(buf, …, comm, request, ierror)   handles of Fortran, an optional ierror
//!   c_code = c_FAMPI_Isend(address(buf), …, to_c(comm), c_request)
//!   if (c_code == FAMPI_SUCCESS) call to_f(c_request, request)
//! ```
//!
//! What it cannot make is left out ([`LEFT_OUT`]), or stands in `fortran/fampi_base.f90`.

use std::fmt::Write as _;

/// Written by hand: what has texts of its own.
const BY_HAND: [&str; 3] = ["FAMPI_Error_string", "FAMPI_Doctor", "FAMPI_World_init"];

/// A handle is written when the request is complete, which a handle of Fortran cannot be; and the
/// start of processes, which goes with these.
const LEFT_OUT: [&str; 5] = [
    "FAMPI_Comm_ishrink",
    "FAMPI_Comm_irebuild",
    "FAMPI_Comm_irebuild_join",
    "FAMPI_Comm_spawn",
    "FAMPI_Comm_get_parent",
];

const BEGIN: &str = "\
! fampi: transactions that let MPI programs survive the death of processes, for Fortran.
!
! Generated from fampi.h, and checked by a test: FAMPI_WRITE_HEADER=1 cargo test -p fampi-ffi \\
! --test header. What each procedure does, returns and needs stands there, and in its manual page.
!
! As in mpi_f08, ierror may be left out; an error then ends the program with its sentence. So may a
! status, after which arguments have their names. Places in lists begin with 1. A buffer is all of
! a variable, or a part without gaps, and is asynchronous until its request is over.
module fampi
  use, intrinsic :: iso_c_binding
  use mpi_f08, only: MPI_Comm, MPI_Datatype, MPI_Group, MPI_Op, MPI_Request, MPI_Status, &
    MPI_UNDEFINED
  use fampi_base
  implicit none
  private

  public :: FAMPI_IN_PLACE, FAMPI_Error_string, FAMPI_Doctor, FAMPI_World_init

  ! The kind of a timeout: nanoseconds.
  integer, parameter, public :: FAMPI_TIMEOUT_KIND = c_int64_t

  ! A group of recommended processes, which is the program's until FAMPI_Membership_free.
  type, public :: FAMPI_Membership
    private
    type(c_ptr) :: object = c_null_ptr
  end type

  ! The report of a block, which is the program's until FAMPI_Report_free.
  type, public :: FAMPI_Report
    private
    type(c_ptr) :: object = c_null_ptr
  end type

";

/// What a parameter is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// A handle of MPI that C takes as it is.
    Handle(&'static str),
    /// A handle that C writes, and reads before if that is true.
    HandleOut(&'static str, bool),
    /// So many handles as another parameter says, which C reads and writes.
    Handles(&'static str),
    Status,
    Statuses,
    /// A buffer; true for one that C only reads.
    Buffer(bool),
    Integer,
    IntegerOut,
    Integers,
    Logical,
    /// A place in a list, which begins with 0 in C.
    Index,
    IndexOut,
    Indices,
    Timeout,
    TimeoutOut,
    /// A number of 64 bits.
    Long,
    LongOut,
    Real,
    RealOut,
    Text,
    /// An object of fampi's.
    Object(&'static str),
    /// One that C writes.
    ObjectOut(&'static str),
}

struct Parameter {
    name: String,
    kind: Kind,
}

struct Function {
    name: String,
    returns: String,
    /// The first sentence about it.
    sentence: String,
    parameters: Vec<Parameter>,
}

impl Function {
    /// Whether it gives places in a list, and how many.
    fn lists_places(&self) -> bool {
        self.parameters.iter().any(|it| it.kind == Kind::Indices)
    }
}

/// The text of the module.
pub(crate) fn module(header: &str) -> String {
    let mut text = BEGIN.to_owned();
    for (sentence, name, value) in constants(header) {
        let kind = if name.contains("_TIMEOUT_") { "FAMPI_TIMEOUT_KIND" } else { "c_int" };
        comment(&mut text, "  ", &sentence);
        writeln!(text, "  integer({kind}), parameter, public :: {name} = {value}").expect("text");
    }
    let functions: Vec<Function> = functions(header);
    let names = functions.iter().map(|it| it.name.as_str());
    let names: Vec<&str> = names.collect();
    text.push_str(&wrapped("\n  public :: ", &names.join(", ")));
    text.push_str("\n  interface\n");
    for function in &functions {
        interface(&mut text, function);
    }
    text.push_str("  end interface\n\ncontains\n");
    for function in &functions {
        procedure(&mut text, function);
    }
    text.push_str("end module\n");
    text
}

/// The first sentence of a comment, its name and what follows it.
fn commented<'a>(header: &'a str, start: &'a str) -> impl Iterator<Item = (String, &'a str)> {
    header.split("/*\n").skip(1).filter_map(move |part| {
        let (comment, rest) = part.split_once(" */\n")?;
        let rest = rest.split("/*").next()?;
        let at = rest.find(start)?;
        let words = comment.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "");
        let sentence = words.split_inclusive(". ").next().unwrap_or_default().trim_end();
        Some((sentence.to_owned(), &rest[at..]))
    })
}

fn constants(header: &str) -> Vec<(String, String, String)> {
    let all = commented(header, "#define FAMPI_");
    let constants = all.filter_map(|(sentence, text)| {
        let mut words = text.lines().next()?.split(' ').skip(1);
        Some((sentence, words.next()?.to_owned(), words.next()?.to_owned()))
    });
    constants.collect()
}

fn functions(header: &str) -> Vec<Function> {
    let starts = ["int FAMPI_", "void FAMPI_", "const char *FAMPI_"];
    let all = starts.into_iter().flat_map(|start| commented(header, start));
    let mut functions: Vec<Function> = all.filter_map(|(s, text)| function(s, text)).collect();
    functions.sort_by(|one, other| one.name.cmp(&other.name));
    functions
}

fn function(sentence: String, text: &str) -> Option<Function> {
    let (before, rest) = text.split_once('(')?;
    let (parameters, _) = rest.split_once(");")?;
    let at = before.rfind("FAMPI_")?;
    let (returns, name) = (before[..at].trim().to_owned(), before[at..].to_owned());
    if LEFT_OUT.contains(&&*name) || BY_HAND.contains(&&*name) {
        return None;
    }
    let parameters = parameters.split(',').map(|it| parameter(&name, it)).collect();
    Some(Function { name, returns, sentence, parameters })
}

fn parameter(function: &str, text: &str) -> Parameter {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let at = text.rfind([' ', '*']).expect("a type and a name") + 1;
    let (c_type, name) = (text[..at].trim(), text[at..].to_owned());
    Parameter { kind: kind(function, c_type, &name), name }
}

fn kind(function: &str, c_type: &str, name: &str) -> Kind {
    const HANDLES: [&str; 6] =
        ["MPI_Comm", "MPI_Request", "MPI_Group", "MPI_Datatype", "MPI_Op", "MPI_Info"];
    let stem = c_type.trim_end_matches(['*', ' ']);
    let is_list = name.starts_with("array_of_") || name.ends_with('s') && name != "status";
    if let Some(handle) = HANDLES.into_iter().find(|it| *it == stem) {
        let parts = ["Wait", "Test", "free", "recover"];
        return match (c_type == stem, is_list) {
            (true, _) => Kind::Handle(handle),
            (false, true) => Kind::Handles(handle),
            (false, false) => Kind::HandleOut(handle, parts.iter().any(|it| function.contains(it))),
        };
    }
    match (c_type, name) {
        ("MPI_Status *", "status") => Kind::Status,
        ("MPI_Status *", "statuses") => Kind::Statuses,
        ("const void *", _) => Kind::Buffer(true),
        ("void *", _) => Kind::Buffer(false),
        ("int", "index") => Kind::Index,
        ("int", _) => Kind::Integer,
        ("int *", "index") => Kind::IndexOut,
        ("int *", "indices" | "array_of_indices") => Kind::Indices,
        ("int *", "flag") if !function.ends_with("agree") => Kind::Logical,
        ("int *" | "const int *", _) if is_list && name != "news" => Kind::Integers,
        ("int *", _) => Kind::IntegerOut,
        ("FAMPI_Timeout", _) => Kind::Timeout,
        ("FAMPI_Timeout *", _) => Kind::TimeoutOut,
        ("int64_t", _) => Kind::Long,
        ("int64_t *", _) => Kind::LongOut,
        ("double", _) => Kind::Real,
        ("double *", _) => Kind::RealOut,
        ("const char *", _) => Kind::Text,
        ("struct FAMPI_Membership *" | "const struct FAMPI_Membership *", _) => {
            Kind::Object("FAMPI_Membership")
        }
        ("struct FAMPI_Membership **", _) => Kind::ObjectOut("FAMPI_Membership"),
        ("struct FAMPI_Report *" | "const struct FAMPI_Report *", _) => {
            Kind::Object("FAMPI_Report")
        }
        ("struct FAMPI_Report **", _) => Kind::ObjectOut("FAMPI_Report"),
        other => panic!("{function} takes {other:?}: say in this file what that is in Fortran"),
    }
}

impl Parameter {
    /// As the function of C takes it.
    fn of_c(&self) -> &'static str {
        match self.kind {
            Kind::Handle(_) => "integer(handle), value",
            Kind::HandleOut(..) => "integer(handle)",
            Kind::Handles(_) => "integer(handle)(*)",
            Kind::Status | Kind::Statuses | Kind::Buffer(_) | Kind::Object(_) => {
                "type(c_ptr), value"
            }
            Kind::Integer | Kind::Index => "integer(c_int), value",
            Kind::IntegerOut | Kind::Logical | Kind::IndexOut => "integer(c_int)",
            Kind::Integers | Kind::Indices => "integer(c_int)(*)",
            Kind::Timeout => "integer(FAMPI_TIMEOUT_KIND), value",
            Kind::TimeoutOut => "integer(FAMPI_TIMEOUT_KIND)",
            Kind::Long => "integer(c_int64_t), value",
            Kind::LongOut => "integer(c_int64_t)",
            Kind::Real => "real(c_double), value",
            Kind::RealOut => "real(c_double)",
            Kind::Text => "character(kind=c_char)(*)",
            Kind::ObjectOut(_) => "type(c_ptr)",
        }
    }

    /// As the procedure takes it; `length` is of lists.
    fn of_fortran(&self, length: &str) -> String {
        match self.kind {
            Kind::Handle(handle) => format!("type({handle}), intent(in)"),
            Kind::HandleOut(handle, _) => format!("type({handle}), intent(inout)"),
            Kind::Handles(handle) => format!("type({handle}), intent(inout)({length})"),
            Kind::Status => "type(MPI_Status), optional, target, intent(inout)".to_owned(),
            Kind::Statuses => {
                format!("type(MPI_Status), optional, target, intent(inout)({length})")
            }
            Kind::Buffer(true) => {
                "type(*), dimension(..), target, asynchronous, intent(in)".to_owned()
            }
            Kind::Buffer(false) => "type(*), dimension(..), target, asynchronous".to_owned(),
            Kind::Integer | Kind::Index => "integer, intent(in)".to_owned(),
            Kind::IntegerOut => "integer, asynchronous, intent(inout)".to_owned(),
            Kind::IndexOut => "integer, intent(inout)".to_owned(),
            Kind::Integers => "integer, intent(in)(*)".to_owned(),
            Kind::Indices => "integer, intent(inout)(*)".to_owned(),
            Kind::Logical => "logical, intent(inout)".to_owned(),
            Kind::Timeout => "integer(FAMPI_TIMEOUT_KIND), intent(in)".to_owned(),
            Kind::TimeoutOut => "integer(FAMPI_TIMEOUT_KIND), intent(inout)".to_owned(),
            Kind::Long => "integer(c_int64_t), intent(in)".to_owned(),
            Kind::LongOut => "integer(c_int64_t), intent(inout)".to_owned(),
            Kind::Real => "real(c_double), intent(in)".to_owned(),
            Kind::RealOut => "real(c_double), intent(inout)".to_owned(),
            Kind::Text => "character(len=*), intent(in)".to_owned(),
            Kind::Object(name) => format!("type({name}), intent(in)"),
            Kind::ObjectOut(name) => format!("type({name}), intent(inout)"),
        }
    }
}

/// Text in lines of the width that Fortran has, after words that begin the first of them.
fn wrapped(begin: &str, words: &str) -> String {
    let mut lines = begin.to_owned();
    let mut length = begin.trim_start_matches('\n').len();
    for word in words.split_inclusive(' ') {
        if length + word.len() > 96 {
            lines.truncate(lines.trim_end().len());
            lines.push_str(" &\n      ");
            length = 6;
        }
        lines.push_str(word);
        length += word.len();
    }
    lines + "\n"
}

fn comment(text: &mut String, indent: &str, sentence: &str) {
    let mut line = format!("{indent}!");
    for word in sentence.split(' ') {
        if line.len() + word.len() > 97 {
            writeln!(text, "{line}").expect("text");
            line = format!("{indent}!");
        }
        line = line + " " + word;
    }
    writeln!(text, "{line}").expect("text");
}

/// A declaration: what stands in parentheses behind attributes is the shape.
fn declare(text: &mut String, indent: &str, of: &str, name: &str) {
    let shape = of.rfind(")(").map(|at| at + 1);
    let (attributes, shape) = shape.map_or((of, ""), |at| of.split_at(at));
    writeln!(text, "{indent}{attributes} :: {name}{shape}").expect("text");
}

/// The function of C.
fn interface(text: &mut String, function: &Function) {
    let Function { name, returns, parameters, .. } = function;
    let names: Vec<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
    let (is_void, names) = (returns == "void", names.join(", "));
    let what = if is_void { "subroutine" } else { "function" };
    let result = if is_void { "" } else { " result(c_code)" };
    text.push_str(&wrapped(
        &format!("    {what} c_{name}("),
        &format!("{names}) bind(C, name=\"{name}\"){result}"),
    ));
    text.push_str("      import\n");
    for parameter in parameters {
        declare(text, "      ", parameter.of_c(), &parameter.name);
    }
    if !is_void {
        text.push_str("      integer(c_int) :: c_code\n");
    }
    writeln!(text, "    end {what}").expect("text");
}

/// The number of entries of a list: the last parameter before it that says so.
fn length(function: &Function, at: usize) -> &str {
    let before = function.parameters[..at].iter().rev();
    let mut counts = before.filter(|it| it.kind == Kind::Integer && it.name.contains("count"));
    counts.next().map_or("*", |it| it.name.as_str())
}

/// How many entries of a list C has written.
fn written(function: &Function, length: &str) -> String {
    let counts = ["count", "outcount"];
    let is_count = |it: &&Parameter| it.kind == Kind::IntegerOut && counts.contains(&&*it.name);
    match function.parameters.iter().find(is_count) {
        Some(count) => format!("min({}, {length})", count.name),
        None => length.to_owned(),
    }
}

/// The procedure that programs call.
fn procedure(text: &mut String, function: &Function) {
    let Function { name, returns, sentence, parameters } = function;
    let gives_number = name == "FAMPI_Report_count";
    let has_error = returns == "int" && !gives_number;
    let mut names: Vec<&str> = parameters.iter().map(|it| it.name.as_str()).collect();
    names.extend(has_error.then_some("ierror"));
    text.push('\n');
    comment(text, "  ", sentence);
    let what = if gives_number { "function" } else { "subroutine" };
    let result = if gives_number { " result(c_code)" } else { "" };
    let names = format!("{}){result}", names.join(", "));
    text.push_str(&wrapped(&format!("  {what} {name}("), &names));
    for (at, parameter) in parameters.iter().enumerate() {
        declare(text, "    ", &parameter.of_fortran(length(function, at)), &parameter.name);
    }
    if has_error {
        text.push_str("    integer, optional, intent(out) :: ierror\n");
    }
    for (at, Parameter { name, kind }) in parameters.iter().enumerate() {
        match kind {
            Kind::HandleOut(..) => declare(text, "    ", "integer(handle)", &format!("c_{name}")),
            Kind::Handles(_) => {
                let name = format!("c_{name}({})", length(function, at));
                declare(text, "    ", "integer(handle)", &name);
            }
            Kind::Status | Kind::Statuses => {
                declare(text, "    ", "type(c_ptr)", &format!("c_{name}"));
            }
            Kind::Logical => declare(text, "    ", "integer(c_int)", &format!("c_{name}")),
            _ => {}
        }
    }
    if returns == "int" {
        text.push_str("    integer(c_int) :: c_code\n");
    }
    before(text, function, has_error);
    let arguments: Vec<String> = parameters.iter().map(argument).collect();
    let call = if returns == "void" { "call " } else { "c_code = " };
    let arguments = format!("{})", arguments.join(", "));
    text.push_str(&wrapped(&format!("    {call}c_{name}("), &arguments));
    after(text, function);
    if has_error {
        writeln!(text, "    call end_call(c_code, \"{name}\", ierror)").expect("text");
    }
    writeln!(text, "  end {what}").expect("text");
}

/// What happens before C is called.
fn before(text: &mut String, function: &Function, has_error: bool) {
    for Parameter { name, kind } in &function.parameters {
        let line = match kind {
            Kind::Buffer(_) if has_error => format!(
                "    if (.not. is_contiguous({name})) then\n      \
                 call end_call(FAMPI_ERR_ARG, \"{}\", ierror)\n      return\n    end if",
                function.name
            ),
            Kind::HandleOut(_, true) | Kind::Handles(_) => format!("    c_{name} = to_c({name})"),
            Kind::IndexOut => format!("    {name} = MPI_UNDEFINED"),
            // Also a call that returns an error may write it: a request that failed is over.
            Kind::Logical => format!("    c_{name} = -1"),
            // What is not written has no entries.
            Kind::IntegerOut if function.lists_places() => format!("    {name} = 0"),
            Kind::Status | Kind::Statuses => format!(
                "    c_{name} = c_null_ptr\n    if (present({name})) c_{name} = c_loc({name})"
            ),
            _ => continue,
        };
        writeln!(text, "{line}").expect("text");
    }
}

/// As it is given to C.
fn argument(Parameter { name, kind }: &Parameter) -> String {
    match kind {
        Kind::Handle(_) => format!("to_c({name})"),
        Kind::HandleOut(..) | Kind::Handles(_) | Kind::Status | Kind::Statuses | Kind::Logical => {
            format!("c_{name}")
        }
        Kind::Buffer(_) => format!("address({name})"),
        Kind::Index => format!("{name} - 1"),
        Kind::Text => format!("to_text({name})"),
        Kind::Object(_) | Kind::ObjectOut(_) => format!("{name}%object"),
        _ => name.clone(),
    }
}

/// What happens after C was called.
fn after(text: &mut String, function: &Function) {
    for (at, Parameter { name, kind }) in function.parameters.iter().enumerate() {
        let line = match kind {
            Kind::HandleOut(_, true) | Kind::Handles("MPI_Request") => {
                format!("    call to_f(c_{name}, {name})")
            }
            Kind::HandleOut(_, false) => {
                format!("    if (c_code == FAMPI_SUCCESS) call to_f(c_{name}, {name})")
            }
            Kind::Handles(_) => {
                let entries = written(function, length(function, at));
                format!(
                    "    if (c_code == FAMPI_SUCCESS) &\n      \
                     call to_f(c_{name}(:{entries}), &\n        {name}(:{entries}))"
                )
            }
            Kind::Logical => {
                format!("    if (c_{name} >= 0) {name} = c_{name} /= 0")
            }
            Kind::IndexOut => {
                format!("    if ({name} /= MPI_UNDEFINED) {name} = {name} + 1")
            }
            Kind::Indices => {
                let entries = written(function, length(function, at));
                format!("    {name}(:{entries}) = {name}(:{entries}) + 1")
            }
            _ => continue,
        };
        writeln!(text, "{line}").expect("text");
    }
}
