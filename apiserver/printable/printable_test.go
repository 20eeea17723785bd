// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	for _, test := range []struct {
		name, given, text, line string
		most                    int
	}{
		{name: "short", given: "Opening ä failed.", most: 20, text: "Opening ä failed.", line: "Opening ä failed."},
		{name: "control characters", given: "a\x1b[31m\x00b\nc\td", most: 20, text: "a[31mb\nc\td", line: "a[31mb c d"},
		{name: "invalid UTF-8", given: "a\xffb", most: 20, text: "ab", line: "ab"},
		{name: "replacement character", given: "a\ufffdb", most: 20, text: "ab", line: "ab"},
		{name: "spaces at both ends", given: " a\n", most: 20, text: " a\n", line: "a"},
		{name: "longest", given: "ääää", most: 8, text: "ääää", line: "ääää"},
		{name: "cut between characters", given: "aääää", most: 8, text: "aää…", line: "aää…"},
		{name: "cut after a character", given: "aaaaaaaaa", most: 8, text: "aaaaa…", line: "aaaaa…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.text, Text(test.given, test.most)); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.line, Line(test.given, test.most)); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryResultIsPrintableAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		most := rapid.IntRange(len(ellipsis), 64).Draw(t, "most")
		text, line := Text(given, most), Line(given, most)
		for _, result := range []string{text, line} {
			if !Is(result) || len(result) > most {
				t.Fatalf("%q, of %d bytes, is not printable text of at most %d bytes", result, len(result), most)
			}
		}
		if strings.ContainsAny(line, "\n\t") {
			t.Fatalf("%q is not one line", line)
		}
		if want := strings.ReplaceAll(given, "\ufffd", ""); Is(given) && len(given) <= most && text != want {
			t.Fatalf("the printable text %q became %q", given, text)
		}
		if !utf8.ValidString(text) {
			t.Fatalf("%q is not valid UTF-8", text)
		}
	})
}
