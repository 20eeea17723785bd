// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pages reads the fenced blocks and the headings of Markdown pages.
package pages

import (
	"regexp"
	"strings"
	"unicode"
)

// The info strings of blocks of commands; docs/development.md describes them.
const (
	// Run marks commands that a test executes.
	Run = "sh run"
	// External marks commands that need a cloud or another system.
	External = "sh external"
	// Example marks commands that need values or a state that only the reader of the page has, and commands for
	// developers.
	Example = "sh example"
)

var (
	fence   = regexp.MustCompile("^( *)(```+)(.*)$")
	heading = regexp.MustCompile(`^#{1,6} +(.+?) *#*$`)
	// linkText matches a link in a heading. The anchor of the heading contains only the text of the link.
	linkText = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	// target matches the command make with a single target.
	target = regexp.MustCompile(`^make ([a-z0-9-]+)( +#.*)?$`)
)

// Block is a fenced block of a page.
type Block struct {
	// Line is the number of the line that opens the block.
	Line int
	// Info is the info string of the block; empty if it has none.
	Info string
	// Section is the anchor of the last heading above the block.
	Section string
	// Text is the content, without the indentation of the fence.
	Text string
}

// Parse returns the blocks of a page in order.
func Parse(text string) []Block {
	var blocks []Block
	section, indent, mark, number := "", "", "", 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		match := fence.FindStringSubmatch(line)
		switch {
		case match != nil && mark == "":
			indent, mark = match[1], match[2]
			blocks = append(blocks, Block{Line: number, Info: strings.TrimSpace(match[3]), Section: section})
		case match != nil && strings.HasPrefix(match[2], mark) && strings.TrimSpace(match[3]) == "":
			mark = ""
		case mark != "":
			blocks[len(blocks)-1].Text += strings.TrimPrefix(line, indent) + "\n"
		default:
			if anchor := Anchor(line); anchor != "" {
				section = anchor
			}
		}
	}
	return blocks
}

// Commands returns the commands of a page that its test executes: the blocks with the mark Run, except those of make
// targets. A section that is not empty limits them to the blocks below the heading with this anchor.
func Commands(text, section string) string {
	commands := strings.Builder{}
	for _, block := range Parse(text) {
		if block.Info == Run && (section == "" || section == block.Section) && block.Targets() == nil {
			commands.WriteString(block.Text)
		}
	}
	return commands.String()
}

// Targets returns the targets of make that a block consists of, or nil if it has another command.
func (b Block) Targets() []string {
	var targets []string
	for line := range strings.Lines(b.Text) {
		match := target.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil {
			return nil
		}
		targets = append(targets, match[1])
	}
	return targets
}

// Anchor returns the anchor that code hosts make of the heading on a line, without the number of a repeated heading.
// It is empty if the line is no heading. The function slugify in hack/docs/config.mjs does the same for the site.
func Anchor(line string) string {
	match := heading.FindStringSubmatch(line)
	if match == nil {
		return ""
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, linkText.ReplaceAllString(match[1], "$1"))
}
