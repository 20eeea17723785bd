// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

// Checkimports reports the packages of the current directory's module that import packages
// which their layer may not import. It prints one line per violation, and exits with status 1
// if there is one.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	packages, err := load()
	if err != nil {
		fmt.Fprintln(os.Stderr, "checkimports:", err)
		os.Exit(1)
	}
	violations := check(packages)
	for _, v := range violations {
		fmt.Println(v)
	}
	if len(violations) > 0 {
		os.Exit(1)
	}
}

// load returns the packages of the module with their imports and dependencies.
func load() ([]pkg, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps", "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	packages, err := decode(out)
	return packages, errors.Join(err, cmd.Wait())
}

func decode(r io.Reader) ([]pkg, error) {
	var packages []pkg
	decoder := json.NewDecoder(r)
	for {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		packages = append(packages, p)
	}
}
