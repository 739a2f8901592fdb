module with_go_rules

go 1.24
