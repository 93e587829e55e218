/* SPDX-License-Identifier: MIT */
/*
 * What PyTorch calls for every operator while the value shadow is on: the __torch_dispatch__ of its mode.
 *
 * It is C so that the operator itself is called with no Python frame between the program and it: call
 * stacks are what they would be without us, and a dense program hardly notices. values.py says once for
 * each operator which rule it has, if any; where it has none, calling it is all that is done.
 */
#include "simgpu/simgpu.h"
#include "simgpu/values.h"

/* An operator, what to call for it without a Python frame, and values.py's rule for it (NULL: none). */
struct operator {
	python *function, *callee, *rule;
	bool is_guarded;
};

enum { OPERATORS_MAX = 4096 };

/* By address, open addressing. Entries stay, and keep their operators alive. Python's lock guards all. */
static struct operator operators[OPERATORS_MAX];
static size_t nr_operators;

static python *none, *not_implemented, *ordinary_exception;
static python *classify, *nr_function_modes, *without_function_modes, *tensor_type, *mend;
static bool is_off;
static python *mode;

/*
 * Forget an error of values.py's own, or of the host's attempt: it is nobody's concern. Returns true, with
 * the error still set, when it is one that must go on: KeyboardInterrupt, SystemExit.
 */
static bool error_goes_on(void)
{
	if (!py.PyErr_Occurred())
		return false;
	if (!py.PyErr_ExceptionMatches(ordinary_exception))
		return true;
	py.PyErr_Clear();
	return false;
}

static struct operator *slot_of(python *function)
{
	size_t at = ((uintptr_t)function >> 4) * 0x9e3779b1u % OPERATORS_MAX;

	while (operators[at].function && operators[at].function != function)
		at = (at + 1) % OPERATORS_MAX;
	return &operators[at];
}

/*
 * FUNCTION's entry, made at its first call; NULL when there is none: the table is full, or an error is set.
 * values.py's classify() returns (callee, rule or None, whether to guard).
 */
static const struct operator *operator_of(python *function)
{
	struct operator *op = slot_of(function), new;
	python *found;

	if (op->function)
		return op;
	if (nr_operators == OPERATORS_MAX / 2)
		return NULL;
	found = py.PyObject_CallFunctionObjArgs(classify, function, NULL);
	if (!found) {
		error_goes_on();
		return NULL;
	}
	new = (struct operator){
		.function = function,
		.callee = py.PyTuple_GetItem(found, 0),
		.rule = py.PyTuple_GetItem(found, 1),
		.is_guarded = py.PyObject_IsTrue(py.PyTuple_GetItem(found, 2)) == 1,
	};
	if (new.rule == none)
		new.rule = NULL;
	/* FOUND is never given back: it keeps what the entry points to alive. Its Python code may have come here. */
	op = slot_of(function);
	if (!op->function) {
		py.Py_IncRef(function);
		*op = new;
		nr_operators++;
	}
	return op;
}

/*
 * Call OP itself. PyTorch hands a number that it has wrapped in a tensor (torch.jit does) to modes as a
 * number, and does not take it back where the schema says Tensor: values.py's mend() returns arguments
 * that it takes, or None.
 */
static python *call_itself(const struct operator *op, python *args, python *keywords)
{
	python *result = py.PyObject_Call(op->callee, args, keywords), *type, *value, *traceback, *mended;

	if (result)
		return result;
	py.PyErr_Fetch(&type, &value, &traceback);
	mended = py.PyObject_CallFunctionObjArgs(mend, op->function, args, type, value ? value : none, NULL);
	if (mended && mended != none) {
		result = py.PyObject_Call(op->callee, mended, keywords);
		python_drop(4, mended, type, value, traceback);
		return result;
	}
	py.PyErr_Clear();
	python_drop(1, mended);
	py.PyErr_Restore(type, value, traceback);
	return NULL;
}

/*
 * The next request of values.py's generator WORK; NULL when it has finished or failed, with an error set
 * or not.
 */
static python *next_request(python *work, python *value)
{
	python *send = py.PyObject_GetAttrString(work, "send"), *request = NULL;

	if (send)
		request = py.PyObject_CallFunctionObjArgs(send, value, NULL);
	python_drop(1, send);
	if (!request)
		error_goes_on();
	return request;
}

/* Call OP itself as REQUEST says: None, or (callee, arguments, keywords). */
static python *call_as_asked(const struct operator *op, python *request, python *args, python *keywords)
{
	if (request == none)
		return call_itself(op, args, keywords);
	return py.PyObject_Call(py.PyTuple_GetItem(request, 0), py.PyTuple_GetItem(request, 1),
				py.PyTuple_GetItem(request, 2));
}

/*
 * Do what WORK asks for until it has finished. It yields
 * - None where the operator itself is to be called, once, and gets its result;
 * - (callee, arguments, keywords) for another way to call it;
 * - (arguments, keywords) for the same on the host, and gets that result or, where the host raises an
 *   error, None: the operator itself will raise it.
 * Returns the operator's result, NULL with an error set, or NULL without one when WORK ended early and the
 * operator is still to be called.
 */
static python *work_through(const struct operator *op, python *work, python *args, python *keywords)
{
	python *result = NULL, *answer = NULL, *request;

	while ((request = next_request(work, answer ? answer : none))) {
		python_drop(1, answer);
		answer = NULL;
		if (request == none || py.PyObject_Size(request) == 3) {
			result = call_as_asked(op, request, args, keywords);
			values_expect_nothing();
			answer = result;
			if (answer)
				py.Py_IncRef(answer);
		} else {
			answer = py.PyObject_Call(op->callee, py.PyTuple_GetItem(request, 0),
						  py.PyTuple_GetItem(request, 1));
			if (!answer)
				error_goes_on();
		}
		py.Py_DecRef(request);
		if (py.PyErr_Occurred())
			break;
	}
	python_drop(1, answer);
	if (!py.PyErr_Occurred())
		return result;
	python_drop(1, result);
	return NULL;
}

static python *call(const struct operator *op, python *args, python *keywords)
{
	python *work = NULL, *result = NULL;

	if (op->rule && !is_off) {
		work = py.PyObject_CallFunctionObjArgs(op->rule, args, keywords ? keywords : none, NULL);
		if (!work && error_goes_on())
			return NULL;
	}
	if (work && work != none)
		result = work_through(op, work, args, keywords);
	if (!result && !py.PyErr_Occurred())
		result = call_itself(op, args, keywords);
	values_expect_nothing();
	python_drop(1, work);
	return result;
}

/*
 * A torch function mode (torch.device as a context is one) has seen the program's call already: it is not
 * to see ours. What an operator written in Python calls, it must see: such operators are not guarded.
 */
static python *call_guarded(const struct operator *op, python *args, python *keywords)
{
	python *guard = NULL, *enter = NULL, *leave = NULL, *entered = NULL, *left = NULL, *result = NULL;
	python *type, *value, *traceback;

	guard = py.PyObject_CallFunctionObjArgs(without_function_modes, NULL);
	if (guard)
		enter = py.PyObject_GetAttrString(guard, "__enter__");
	if (enter)
		leave = py.PyObject_GetAttrString(guard, "__exit__");
	if (leave)
		entered = py.PyObject_CallFunctionObjArgs(enter, NULL);
	if (entered) {
		result = call(op, args, keywords);
		py.PyErr_Fetch(&type, &value, &traceback);
		left = py.PyObject_CallFunctionObjArgs(leave, none, none, none, NULL);
		py.PyErr_Restore(type, value, traceback);
	}
	python_drop(5, guard, enter, leave, entered, left);
	return entered || error_goes_on() ? result : call(op, args, keywords);
}

static bool is_guard_needed(const struct operator *op)
{
	python *nr;
	bool any;

	if (!op->is_guarded)
		return false;
	nr = py.PyObject_CallFunctionObjArgs(nr_function_modes, NULL);
	any = nr && py.PyObject_IsTrue(nr) == 1;
	python_drop(1, nr);
	return any;
}

/*
 * Whether TYPE takes part in dispatch no more than torch.Tensor does: Parameter, whose .data is asked of
 * us by type.
 */
static bool is_like_tensor(python *type)
{
	python *own, *base;
	bool result;

	if (type == tensor_type)
		return true;
	own = py.PyObject_GetAttrString(type, "__torch_dispatch__");
	base = py.PyObject_GetAttrString(tensor_type, "__torch_dispatch__");
	result = own && own == base;
	if (!own || !base)
		py.PyErr_Clear();
	python_drop(2, own, base);
	return result;
}

/*
 * Whether TYPES has a tensor subclass that goes first, with us still below it: what it calls for its parts
 * comes here again. torch.Tensor is there for some sparse tensors. A subclass that has a mode of PyTorch's
 * own for it, as FakeTensor has, is that mode's affair, which has still to be asked.
 */
static bool has_subclass(python *types)
{
	ptrdiff_t nr = py.PyObject_Size(types);

	for (ptrdiff_t i = 0; i < nr; i++) {
		python *type = py.PyTuple_GetItem(types, i), *key;

		if (is_like_tensor(type))
			continue;
		key = py.PyObject_GetAttrString(type, "_mode_key");
		if (!key) {
			py.PyErr_Clear();
			return true;
		}
		py.Py_DecRef(key);
	}
	return false;
}

/* mode.__torch_dispatch__(function, types, args, keywords). */
static python *dispatch(python *self, python *const *args, ptrdiff_t nr)
{
	const struct operator *op;
	python *keywords;

	(void)self;
	if (nr < 3)
		return NULL;
	if (has_subclass(args[1])) {
		py.Py_IncRef(not_implemented);
		return not_implemented;
	}
	keywords = nr > 3 && args[3] != none ? args[3] : NULL;
	op = operator_of(args[0]);
	if (!op)
		return py.PyErr_Occurred() ? NULL : py.PyObject_Call(args[0], args[2], keywords);
	return is_guard_needed(op) ? call_guarded(op, args[2], keywords) : call(op, args[2], keywords);
}

python *values_install(python *self, python *const *args, ptrdiff_t nr)
{
	static struct python_method method = { "__torch_dispatch__", NULL, METH_FASTCALL, NULL };
	python *builtins = py.PyEval_GetBuiltins();

	(void)self;
	if (nr != 6)
		return values_none();
	none = values_none();
	not_implemented = py.PyDict_GetItemString(builtins, "NotImplemented");
	ordinary_exception = py.PyDict_GetItemString(builtins, "Exception");
	classify = args[0];
	nr_function_modes = args[2];
	without_function_modes = args[3];
	tensor_type = args[4];
	mend = args[5];
	for (ptrdiff_t i = 0; i < nr; i++)
		py.Py_IncRef(args[i]);
	method.function = dispatch;
	__atomic_store_n(&mode, args[1], __ATOMIC_RELEASE);
	/* PyTorch wants a method of the mode: one whose __self__ is the mode. */
	return py.PyCFunction_NewEx(&method, args[1], NULL);
}

const void *values_mode(void)
{
	return __atomic_load_n(&mode, __ATOMIC_ACQUIRE);
}

python *values_switch_off(python *self, python *const *args, ptrdiff_t nr)
{
	(void)self;
	(void)args;
	(void)nr;
	is_off = true;
	return values_none();
}
