// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// tail is the maximal number of bytes at the end of a log that are kept.
const tail = 1 << 20

// CollectDaemons writes the ends of the logs of the nodes' daemons to dir. Collect does not include
// them, because daemons are not containers. It continues after errors, and returns them joined.
func (p *Playground) CollectDaemons(dir string) error {
	return tails(filepath.Join(p.Dir(), "logs"), dir)
}

// tails writes the ends of all logs in the subdirectories of from to the same paths below to.
func tails(from, to string) error {
	logs, err := filepath.Glob(filepath.Join(from, "*", "*.log"))
	if err != nil {
		return err
	}
	var failures []error
	for _, log := range logs {
		node := filepath.Join(to, filepath.Base(filepath.Dir(log)))
		if err := os.MkdirAll(node, 0o755); err != nil {
			return err
		}
		failures = append(failures, copyTail(log, filepath.Join(node, filepath.Base(log))))
	}
	return errors.Join(failures...)
}

func copyTail(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if _, err := in.Seek(max(0, info.Size()-tail), io.SeekStart); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
