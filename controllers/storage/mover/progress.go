// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"bytes"
	"regexp"
	"strconv"
)

// progress has the values in one line that rsync prints with the option --info=progress2.
type progress struct {
	// bytes is the number of bytes that rsync has processed.
	bytes          int64
	bytesPerSecond int64
	// all is the number of paths that rsync has found in the source, and left the number of these paths that are not
	// checked yet.
	left, all int64
}

// progressLine matches a line of progress, for example "    1048576  50%    1.00MB/s    0:00:02 (xfr#1, to-chk=1/3)".
// The time is the elapsed one in lines with xfr, which rsync prints after each file, and the remaining one in others.
var progressLine = regexp.MustCompile(`^\s*([0-9,]{1,24})\s+[0-9]{1,3}%\s+` +
	`([0-9]{1,12}(?:\.[0-9]{1,3})?)([kMGT]?)B/s\s+` +
	`[0-9]{1,9}:[0-9]{2}:[0-9]{2}(?:\s+\(xfr#[0-9]+, (?:to|ir)-chk=([0-9]{1,15})/([0-9]{1,15})\))?\s*$`)

// units has the factors of the unit prefixes that rsync prints.
var units = map[string]float64{"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

// parseProgress returns the values in a line, and whether it is a line of progress.
func parseProgress(line []byte) (progress, bool) {
	match := progressLine.FindSubmatch(line)
	if match == nil {
		return progress{}, false
	}
	number := func(i int) int64 {
		// The pattern limits the number of digits. A value that is still too large counts as 0.
		n, err := strconv.ParseInt(string(bytes.ReplaceAll(match[i], []byte(","), nil)), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	rate, err := strconv.ParseFloat(string(match[2]), 64)
	if err != nil || rate*units[string(match[3])] > 1<<62 {
		rate = 0
	}
	return progress{
		bytes:          number(1),
		bytesPerSecond: int64(rate * units[string(match[3])]),
		left:           number(4), all: number(5),
	}, true
}

// progressWriter is the standard output or error of rsync. It calls report for each line of progress, and keeps the
// first maxListed other lines.
type progressWriter struct {
	report func(progress)
	line   []byte
	others []string
	more   int
}

const (
	// maxListed is the maximum number of lines that are kept.
	maxListed = 16
	maxLine   = 4096
)

// Write implements io.Writer. It splits the output at newlines and carriage returns.
func (w *progressWriter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' && b != '\r' {
			if len(w.line) < maxLine {
				w.line = append(w.line, b)
			}
			continue
		}
		w.end()
	}
	return len(p), nil
}

func (w *progressWriter) end() {
	defer func() { w.line = w.line[:0] }()
	if len(bytes.TrimSpace(w.line)) == 0 {
		return
	}
	if p, ok := parseProgress(w.line); ok {
		if w.report != nil {
			w.report(p)
		}
		return
	}
	if len(w.others) < maxListed {
		w.others = append(w.others, sanitize(string(w.line)))
	} else {
		w.more++
	}
}
