// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func TestProgressOfRsync(t *testing.T) {
	for line, want := range map[string]progress{
		"              3 100%    0.00kB/s    0:00:00 (xfr#1, to-chk=0/4)": {bytes: 3, all: 4},
		"  1,048,576  50%    1.00MB/s    0:00:02 (xfr#1, to-chk=1/3)":     {bytes: 1 << 20, bytesPerSecond: 1 << 20, left: 1, all: 3},
		"     524288  25%    1.50GB/s   10:01:02  ":                       {bytes: 1 << 19, bytesPerSecond: 3 << 29},
	} {
		got, ok := parseProgress([]byte(line))
		if !ok {
			t.Errorf("%q is no progress", line)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(progress{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", line, diff)
		}
	}
}

// After each file, rsync prints the elapsed time in place of the remaining one.
func TestRemainingTimeIsThatOfTheRemainingBytes(t *testing.T) {
	s := &sender{reported: time.Now(), report: Report{BytesTotal: 100 << 20, FilesTotal: 4}}
	output := &progressWriter{report: s.progress}
	for _, step := range []struct {
		line      string
		passes    int32
		remaining *int64
	}{
		{"         32,768   0%    0.00kB/s    0:00:00  ", 0, nil},
		{"     10,485,760  10%    1.00MB/s    0:00:10 (xfr#1, to-chk=3/5)", 0, ptr.To[int64](90)},
		{"     20,971,520  20%    1.00MB/s    0:01:20  ", 0, ptr.To[int64](80)},
		{"     94,371,840  90%    2.00MB/s    0:01:20 (xfr#3, to-chk=1/5)", 0, ptr.To[int64](5)},
		{"    209,715,200 100%    2.00MB/s    0:01:20 (xfr#4, to-chk=0/5)", 0, ptr.To[int64](0)},
		{"     10,485,760  10%    1.00MB/s    0:00:10 (xfr#1, to-chk=3/5)", 1, nil},
	} {
		s.report.Passes = step.passes
		if _, err := output.Write([]byte(step.line + "\r")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.remaining, s.report.RemainingSeconds); diff != "" {
			t.Errorf("%q, after %d passes (-want +got):\n%s", step.line, step.passes, diff)
		}
	}
}

func FuzzProgress(f *testing.F) {
	f.Add("  1,048,576  50%    1.00MB/s    0:00:02 (xfr#1, to-chk=1/3)\r\n>f+++++++++ a\n")
	f.Add("99999999999999999999999 100% 999999999999.999TB/s 999999999:99:99 (xfr#1, ir-chk=999999999999999/1)\r")
	f.Fuzz(func(t *testing.T, output string) {
		w := &progressWriter{report: func(p progress) {
			if p.bytes < 0 || p.bytesPerSecond < 0 || p.left < 0 || p.all < 0 {
				t.Errorf("%q is read as %+v", output, p)
			}
		}}
		if n, err := w.Write([]byte(output)); n != len(output) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
		w.end()
		for _, line := range w.others {
			if len(line) > maxMessage || !utf8.ValidString(line) || strings.ContainsAny(line, "\x00\x1b\n") {
				t.Errorf("kept %q", line)
			}
		}
	})
}

func FuzzReports(f *testing.F) {
	f.Add("rsync: text\n" + `{"state":"Copying","bytesTotal":10,"bytesCopied":-4}` + "\n{")
	f.Fuzz(func(t *testing.T, log string) {
		r, ok := ParseReport(log)
		if ok && (r.State == "" || r.BytesCopied < 0 || r.Passes < 0 || len(r.Message) > maxMessage) {
			t.Errorf("%q is read as %+v", log, r)
		}
	})
}
