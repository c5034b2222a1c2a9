// What embind makes of a function, where the compiler can't make it itself (-sEMBIND_AOT). embind's own goes through lists
// of types at every call and sets the lengths of arrays, which takes longer than a small kernel. The module's functions have
// one argument or none, and none of the types (numbers, booleans) has anything to free.

{
  const { library } = LibraryManager;
  mergeInto(library, {
    $craftInvokerFunction__deps: [],
    // biome-ignore lint/complexity/useArrowFunction: older compilers leave arrow functions out
    $craftInvokerFunction: function (_name, types, _classType, invoke, target) {
      const result = types[0];
      const argument = types[2];
      if (!argument) return () => result.fromWireType(invoke(target));
      return (value) => result.fromWireType(invoke(target, argument.toWireType(null, value)));
    },
  });
}
