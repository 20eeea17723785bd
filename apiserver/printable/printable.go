// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Package printable makes texts of other programs and peers safe to display: a terminal would interpret control
// characters, and a long text would fill a status or an event.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// ellipsis is the end of a text that was cut.
const ellipsis = "…"

// Is reports whether a text is valid UTF-8 without control characters, except line breaks and tabs.
func Is(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && !isBreak(r) })
}

// Text returns a text of at most most bytes without the characters that Is refuses, and without U+FFFD, which other
// programs write instead of invalid bytes. If it is longer, it is cut between two characters and ends with an ellipsis.
func Text(s string, most int) string {
	return cut(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !isBreak(r) {
			return -1
		}
		return r
	}, s), most)
}

// Line returns the result of Text as one line: line breaks and tabs become spaces, and spaces at both ends are removed.
func Line(s string, most int) string {
	return Text(strings.Map(func(r rune) rune {
		if isBreak(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(s)), most)
}

func isBreak(r rune) bool { return r == '\n' || r == '\t' }

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:max(end, 0)] + ellipsis
}
