// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/sbom"
)

func newSBOM() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "sbom --output FILE.spdx.json IMAGE.tar",
		Short: "List the contents of a container image",
		Long: `sbom writes a document in the format SPDX 2.3 with the Go modules of an image's program
and the image's Debian packages. The environment variable SOURCE_DATE_EPOCH sets the time
of the document, in seconds since 1970. The default is 0.`,
		Example: "  playground sbom --output _output/federation-virtual-kubelet.spdx.json \\\n" +
			"      _output/federation-virtual-kubelet.tar",
		Args: use(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "" {
				return useError{fmt.Errorf("--output is required")}
			}
			created, err := sourceDate(os.Getenv("SOURCE_DATE_EPOCH"))
			if err != nil {
				return useError{err}
			}
			text, err := sbom.FromArchive(args[0], created)
			if err != nil {
				return err
			}
			return os.WriteFile(output, text, 0o644)
		},
	}
	cmd.Flags().StringVar(&output, "output", "", "file that the SPDX document is written to")
	return cmd
}

// sourceDate returns the time that a value of SOURCE_DATE_EPOCH means. It fails for a value that is no number.
func sourceDate(value string) (time.Time, error) {
	if value == "" {
		return time.Unix(0, 0), nil
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: must be a number of seconds", value)
	}
	return time.Unix(seconds, 0), nil
}
