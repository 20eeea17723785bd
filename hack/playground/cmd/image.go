// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package cmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"liqo.io/federation/hack/playground/image"
)

func newImage() *cobra.Command {
	var config image.Config
	var output string
	var files, links []string
	cmd := &cobra.Command{
		Use:   "image --tag NAME:TAG --output FILE.tar BINARY",
		Short: "Pack a static program into a container image",
		Long: `image writes a docker archive with an image whose entry point is the program. The
image contains the program at / with its file name, /tmp, /etc/passwd, and the files,
links and packages of the flags. The same input results in the same bytes.`,
		Example: "  playground image --tag liqo.io/federation-virtual-kubelet:dev " +
			`--output _output/federation-virtual-kubelet.tar \
      bin/federation-virtual-kubelet
  playground image --tag liqo.io/federation-gateway:dev --output _output/federation-gateway.tar --deb iptables \
      --link /usr/sbin/iptables=xtables-nft-multi bin/federation-gateway`,
		Args: use(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if config.Tag == "" || output == "" {
				return useError{fmt.Errorf("--tag and --output are required")}
			}
			config.Binary = args[0]
			var err error
			if config.Files, err = pairs("file", files); err != nil {
				return useError{err}
			}
			if config.Links, err = pairs("link", links); err != nil {
				return useError{err}
			}
			cache, err := os.UserCacheDir()
			if err != nil {
				return err
			}
			config.PackageCache = filepath.Join(cache, "liqo-playground", "packages")
			img, err := image.Build(cmd.Context(), config)
			if err != nil {
				return err
			}
			if err := image.Write(output, config.Tag, img); err != nil {
				return err
			}
			return printTo(cmd.OutOrStdout(), "%s is in %s\n", config.Tag, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&config.Tag, "tag", "", "full name and tag of the image, for example liqo.io/controller:dev")
	flags.StringVar(&output, "output", "", "file that the image is written to, as a docker archive")
	flags.StringVar(&config.User, "user", image.NonRoot, "UID:GID that the program runs as")
	flags.StringArrayVar(&files, "file", nil, "/PATH=FILE: add FILE to the image at /PATH; may be repeated")
	flags.StringArrayVar(&links, "link", nil, "/PATH=TARGET: add a symbolic link to the image; may be repeated")
	flags.StringArrayVar(&config.Packages, "deb", nil,
		"Debian package to unpack into the image with its dependencies; may be repeated")
	flags.StringArrayVar(&config.WithoutPackages, "without-deb", nil,
		"Debian package to leave out, for example a dependency that only maintainer scripts use; may be repeated")
	return cmd
}

func newDigest() *cobra.Command {
	return &cobra.Command{
		Use:   "digest IMAGE.tar",
		Short: "Print the digest of a container image",
		Long: `digest prints the digest of the image in a docker archive that "playground image"
wrote. A registry has the same digest if the archive is pushed with crane.`,
		Example: "  playground digest _output/federation-virtual-kubelet.tar",
		Args:    use(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			digest, err := image.Digest(args[0])
			if err != nil {
				return err
			}
			return printTo(cmd.OutOrStdout(), "%s\n", digest)
		},
	}
}

// pairs parses the values of a repeated flag, of the form /PATH=VALUE, into a map. It fails for a value of
// another form.
func pairs(flag string, values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range values {
		path, value, found := strings.Cut(v, "=")
		if !found || !filepath.IsAbs(path) || value == "" {
			return nil, fmt.Errorf("--%s %q: must be /PATH=VALUE", flag, v)
		}
		out[path] = value
	}
	return out, nil
}
