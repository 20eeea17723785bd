// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// The configuration of VitePress, which renders the pages for make docs. VitePress reads plain Markdown: it takes
// titles from headings, and follows relative links between pages. Its default theme has navigation, and a search that
// works without a server. Hugo would require a theme with its own licence and version, front matter in each page, and
// hooks for links.

import fs from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'

// tree is the folder of the checkout, and pages the folder with copies of its pages.
const tree = process.env.TREE
const pages = process.env.PAGES

// linkedFiles are the files of the checkout, except pages, that pages link to. The site gets copies of them.
const linkedFiles = new Set()

// style widens the text to code blocks of a hundred columns, and joins the lines of drawings in them. On narrower screens
// the headings at the right side give way to the text.
const style = `
  .VPDoc.has-aside .content-container { max-width: 860px !important; }
  @media (max-width: 1500px) { .VPDoc .aside { display: none !important; } }
  .vp-doc table { font-size: 14px; }
  .vp-doc div[class*='language-'] code { font-size: 13px; line-height: 1.4; }
`

export default defineConfig({
  title: 'Liqo Federation',
  description: 'Kubernetes clusters that run pods on each other',
  head: [['style', {}, style]],
  srcDir: pages,
  outDir: process.env.OUT,
  markdown: { html: false, anchor: { slugify }, config: plainMarkdown },
  // Prevents a warning: the index of the search is one large file.
  vite: { build: { chunkSizeWarningLimit: 2048 } },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Documentation', link: '/docs/index' },
      {
        text: 'Project',
        items: [
          { text: 'Changelog', link: '/CHANGELOG' },
          { text: 'Contributing', link: '/CONTRIBUTING' },
          { text: 'Reporting a vulnerability', link: '/SECURITY' },
        ],
      },
    ],
    sidebar: sidebar(),
  },
  buildEnd({ outDir }) {
    for (const file of linkedFiles) {
      fs.cpSync(path.join(tree, file), path.join(outDir, file))
    }
  },
})

// sidebar returns the sections of docs/README.md, each with its links.
function sidebar() {
  const groups = []
  for (const line of fs.readFileSync(path.join(pages, 'docs/index.md'), 'utf8').split('\n')) {
    const section = line.match(/^## (.+)$/)
    if (section) {
      groups.push({ text: section[1], collapsed: false, items: [] })
    }
    for (const [, text, page, anchor = ''] of line.matchAll(/\[([^\]]+)\]\(([^)#]+)\.md(#[^)]*)?\)/g)) {
      const link = path.posix.join('/docs', page).replace(/README$/, 'index') + anchor
      groups.at(-1)?.items.push({ text, link })
    }
  }
  return groups
}

// plainMarkdown makes VitePress render pages as code hosts do: braces are text, and not parts of a template.
function plainMarkdown(md) {
  md.core.ruler.push('tree', linkTheSite)
  for (const kind of ['text', 'code_inline']) {
    const render = md.renderer.rules[kind]
    md.renderer.rules[kind] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
  }
}

// linkTheSite changes links: to a README.md into links to the index of its folder, and to any other file that is not
// a page into links to the site's copy of the file.
function linkTheSite(state) {
  for (const token of state.tokens.flatMap((block) => block.children ?? [])) {
    const href = token.type === 'link_open' ? token.attrGet('href') : null
    if (href === null || /^([a-z]+:|#|\/)/.test(href)) {
      continue
    }
    const [file] = href.split('#')
    if (file.endsWith('.md')) {
      token.attrSet('href', href.replace(/(^|\/)README\.md(?=#|$)/, '$1index.md'))
      continue
    }
    const linked = path.posix.join(path.posix.dirname(state.env.relativePath), file)
    if (fs.statSync(path.join(tree, linked), { throwIfNoEntry: false })?.isFile()) {
      linkedFiles.add(linked)
    }
    token.attrSet('target', '_blank')
  }
}

// slugify returns the anchor of a heading on code hosts. hack/tools/checklinks computes it in the same way.
function slugify(heading) {
  return heading.toLowerCase().replace(/[^\p{L}\p{M}\p{N}_\- ]/gu, '').replaceAll(' ', '-')
}
