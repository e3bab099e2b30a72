// Says what a Compose file means, as Docker's own loader reads it: resolve FILE ENV-FILE PROFILE... prints JSON.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	body, err := resolve(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(body))
}

func resolve(file string, environment string, profiles []string) ([]byte, error) {
	options, err := cli.NewProjectOptions(
		[]string{file}, cli.WithEnvFiles(environment), cli.WithDotEnv, cli.WithProfiles(profiles),
	)
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return nil, err
	}
	return project.MarshalJSON()
}
