// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"liqo.io/federation/apiserver/printable"
)

// State is the state of a sender.
type State string

const (
	// StateCopying means that a pass is running.
	StateCopying State = "Copying"
	// StateConnecting means that the receiver is unreachable and the sender retries.
	StateConnecting State = "Connecting"
	// StateWaiting means that all passes before the last are done.
	StateWaiting State = "Waiting"
	// StateVerifying means that source and target are being compared.
	StateVerifying State = "Verifying"
	// StateDone means that the target equals the source and is written to its disk.
	StateDone State = "Done"
	// StateFailed means that the sender gave up, for the reason in the message.
	StateFailed State = "Failed"
)

// Report is a line in the log of a sender. The last report is also its termination message.
type Report struct {
	// State is the state of the sender.
	State State `json:"state"`
	// Message is the reason for which the sender retries or gave up; empty in other states.
	Message string `json:"message,omitempty"`
	// Passes is the number of complete passes.
	Passes int32 `json:"passes,omitempty"`
	// BytesTotal is the size of all files in the source, and BytesCopied the number of these bytes that the target has.
	BytesTotal  int64 `json:"bytesTotal,omitempty"`
	BytesCopied int64 `json:"bytesCopied,omitempty"`
	// FilesTotal is the number of paths in the source, including directories, and FilesCopied the number of these paths
	// that the target has.
	FilesTotal  int64 `json:"filesTotal,omitempty"`
	FilesCopied int64 `json:"filesCopied,omitempty"`
	// BytesPerSecond is the rate of the current pass.
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	// RemainingSeconds is the expected time until the first pass ends. It is nil without a rate, and in later
	// passes, in which it is not known how many files have changed.
	RemainingSeconds *int64 `json:"remainingSeconds,omitempty"`
}

// maxMessage is the maximum length of a report's message, in bytes.
const maxMessage = 512

// ParseReport returns the last report in a log or a termination message, and whether there is one. It ignores other
// lines, cuts messages to maxMessage and replaces negative numbers by 0.
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
			&r.BytesTotal, &r.BytesCopied, &r.FilesTotal, &r.FilesCopied, &r.BytesPerSecond,
		} {
			*n = max(*n, 0)
		}
		if r.RemainingSeconds != nil {
			*r.RemainingSeconds = max(*r.RemainingSeconds, 0)
		}
		return r, true
	}
	return Report{}, false
}

// write writes the report to the log.
func (r Report) write() error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding a report: %w", err)
	}
	_, err = fmt.Fprintf(os.Stdout, "%s\n", line)
	return err
}

// terminate writes the report to the log and to the file with the termination message.
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

// sanitize returns a text as one line without control characters, cut to maxMessage bytes.
func sanitize(s string) string { return printable.Line(s, maxMessage) }
