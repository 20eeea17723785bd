// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"
)

// State is the state of a sender.
type State string

const (
	// StateCopying means that a pass runs.
	StateCopying State = "Copying"
	// StateConnecting means that the receiver is unreachable, which is retried.
	StateConnecting State = "Connecting"
	// StateWaiting means that the passes before the last are done.
	StateWaiting State = "Waiting"
	// StateVerifying means that source and target are compared.
	StateVerifying State = "Verifying"
	// StateDone means that the target is the same as the source, and on its disk.
	StateDone State = "Done"
	// StateFailed means that copying cannot succeed, for the reason in the message.
	StateFailed State = "Failed"
)

// Report is one line that a sender logs, and its last one the result of its pod.
type Report struct {
	// State is the state of the sender.
	State State `json:"state"`
	// Message is the reason why the sender waits or failed.
	Message string `json:"message,omitempty"`
	// Passes is the number of complete passes.
	Passes int32 `json:"passes,omitempty"`
	// BytesTotal is the size of all files, and BytesCopied the part of it that the target has.
	BytesTotal  int64 `json:"bytesTotal,omitempty"`
	BytesCopied int64 `json:"bytesCopied,omitempty"`
	// FilesTotal is the number of files, and FilesCopied how many the target has.
	FilesTotal  int64 `json:"filesTotal,omitempty"`
	FilesCopied int64 `json:"filesCopied,omitempty"`
	// BytesPerSecond is the rate of the current pass, and RemainingSeconds its expected
	// rest.
	BytesPerSecond   int64 `json:"bytesPerSecond,omitempty"`
	RemainingSeconds int64 `json:"remainingSeconds,omitempty"`
}

// maxMessage bounds the message of a report, in bytes.
const maxMessage = 512

// ParseReport returns the last report of a log or of a termination message. Other lines are
// ignored, messages are bounded, and numbers are never negative.
func ParseReport(log string) (Report, bool) {
	lines := strings.Split(strings.TrimRight(log, "\n"), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		var r Report
		if !strings.HasPrefix(lines[i], "{") || json.Unmarshal([]byte(lines[i]), &r) != nil {
			continue
		}
		switch r.State {
		case StateCopying, StateConnecting, StateWaiting, StateVerifying, StateDone, StateFailed:
		default:
			continue
		}
		r.Message = sanitize(r.Message)
		r.Passes = max(r.Passes, 0)
		for _, n := range []*int64{
			&r.BytesTotal, &r.BytesCopied, &r.FilesTotal, &r.FilesCopied, &r.BytesPerSecond, &r.RemainingSeconds,
		} {
			*n = max(*n, 0)
		}
		return r, true
	}
	return Report{}, false
}

// write logs a report.
func (r Report) write() error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a report: %w", err)
	}
	_, err = fmt.Fprintf(os.Stdout, "%s\n", line)
	return err
}

// terminate logs the last report and writes it for the pod's status.
func (r Report) terminate(file string) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a report: %w", err)
	}
	if err := os.WriteFile(file, line, 0o600); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return r.write()
}

// sanitize returns one line of at most maxMessage bytes without control characters.
func sanitize(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(s))
	for len(s) > maxMessage {
		s = s[:maxMessage]
		for !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	return s
}
