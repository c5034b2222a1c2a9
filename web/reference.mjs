// A plugin of TypeDoc, for what is easier to read than to write.

import { Converter, JSX, makeRecursiveVisitor, PageEvent, ReflectionKind } from 'typedoc';

/**
 * What load() gives is an object, whose members TypeDoc shows on the one page of its type. Here each has a page of its own,
 * as if it were exported: people look for layerNorm, not for Operations.
 */
function liftMembers(project) {
  const lift = (member) => {
    member.parent.removeChild(member);
    member.kind = member.kindOf(ReflectionKind.Method) ? ReflectionKind.Function : ReflectionKind.Variable;
    member.parent = project;
    project.addChild(member);
  };
  const instance = project.getChildByName('Simdnorm');
  for (const member of instance.children.filter(({ flags }) => flags.isInherited)) project.removeReflection(member);
  lift(instance.getChildByName('tensor'));
  for (const name of ['Operations', 'Layers']) {
    const owner = project.getChildByName(name);
    for (const member of [...owner.children]) lift(member);
    project.removeReflection(owner);
  }
  instance.extendedTypes = undefined;
}

/** Given<O> is O, for whoever doesn't ask how it is found. */
function showGiven(project) {
  const visitor = makeRecursiveVisitor({
    reference(type) {
      if (type.name !== 'Given') return;
      type.name = type.typeArguments[0].name;
      type.typeArguments = undefined;
      type.refersToTypeParameter = true;
    },
  });
  for (const { type } of Object.values(project.reflections)) type?.visit(visitor);
}

export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    liftMembers(project);
    showGiven(project);
  });
  app.renderer.hooks.on('sidebar.begin', ({ relativeURL }) =>
    JSX.createElement('a', { href: relativeURL('../index.html') }, 'Normalize your numbers'),
  );
  app.renderer.on(PageEvent.END, (page) => {
    // It sets the theme before there is anything to see, which main.js does as well: the site's policy forbids it.
    page.contents = page.contents.replace(/<script>.*?<\/script>/s, '');
    // Nor may the README's tables have styles.
    page.contents = page.contents.replaceAll(' style="text-align:right"', ' align="right"');
  });
}
